// Which parts of a server's configuration a reload takes over (rows marked live() in the key
// table); the rest stays what the program was started with.
#pragma once

#include "cpp/config/server.hpp"

namespace tmesh::server {

void take_live(config::ServerConfig& running, config::ServerConfig&& fresh);

}  // namespace tmesh::server
