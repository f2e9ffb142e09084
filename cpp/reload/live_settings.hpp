// Which of the settings that each program has a reload takes over.
#pragma once

#include "cpp/config/common.hpp"

namespace tmesh::reload {

// The budget is the loop's and stays; no window becomes more than a quarter of it. Capabilities and
// the socket of `status` stay, too.
void take_live(config::ProgramSettings& running, const config::ProgramSettings& fresh);

}  // namespace tmesh::reload
