// What a person should look at after an open ended like this: one sentence. For `explain`.
#pragma once

#include "core/proto/open_result.h"

namespace tmesh::client {

// Static text; never empty, also outside the enums.
const char* open_advice(unsigned stage, unsigned code);

}  // namespace tmesh::client
