// What links to clients and to agents have in common: how a mux begins, what may be
// negotiated, who is one of ours. Pure functions; no state.
#pragma once

#include <cstdint>

#include "core/mux/mux.h"
#include "cpp/config/server.hpp"

namespace tmesh::server {

// The capabilities that the configuration leaves on (requirement I2).
uint32_t enabled_capabilities(const config::Capabilities& switches);

// Whether a hello comes from a program of this project: deployed ones never announce
// these names (WIRE 1.7).
bool is_peer_ours(uint32_t announced);

// A link before its hello: nothing is negotiated, no extension is on.
tmesh_mux_config link_mux_config(const config::ServerConfig& config, bool is_opener);

}  // namespace tmesh::server
