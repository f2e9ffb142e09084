// Which parts of an agent's configuration a reload takes over (rows marked live() in the key
// table); the rest stays what the program was started with.
#pragma once

#include "cpp/config/agent.hpp"

namespace tmesh::agent {

void take_live(config::AgentConfig& running, config::AgentConfig&& fresh);

}  // namespace tmesh::agent
