// Which parts of a client's configuration a reload takes over (rows marked live() in the key
// table); the rest stays what the program was started with.
#pragma once

#include "cpp/config/client.hpp"

namespace tmesh::client {

void take_live(config::ClientConfig& running, config::ClientConfig&& fresh);

}  // namespace tmesh::client
