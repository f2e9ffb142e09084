// `tunnelmesh-client explain`: one open, traced stage by stage with the times as they are seen
// here.
//
// Makes a link of its own with the client's settings, opens one stream and closes it again;
// not a byte is sent to the target. What a stage means and why something is forbidden is not
// known here: OPEN_RESULT carries stage and code alone (requirement B5).
#pragma once

#include <cstdio>

#include "cpp/config/client.hpp"

namespace tmesh::client {

// config.tunnels: the one tunnel (tcp) whose agent and target are meant. Blocks until there is
// an answer; the limits are those of a link and client.stream.open_timeout. 0: the target was
// reached (or, through a server that gives no answers, was not refused in time); 1 otherwise.
[[nodiscard]] int run_explain(const config::ClientConfig& config, bool is_json, std::FILE* out,
                              std::FILE* err);

}  // namespace tmesh::client
