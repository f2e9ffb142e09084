#include "cpp/server/link_config.hpp"

#include "core/proto/capability.h"

namespace tmesh::server {

uint32_t enabled_capabilities(const config::Capabilities& switches) {
  return tmesh_capability_enabled(switches.open_result, switches.flow_control, switches.fair_writer,
                                  switches.early_data, switches.window_growth);
}

bool is_peer_ours(uint32_t announced) {
  return (announced & (TMESH_CAP_FAIR_WRITER | TMESH_CAP_EARLY_DATA | TMESH_CAP_WINDOW_GROWTH)) != 0;
}

tmesh_mux_config link_mux_config(const config::ServerConfig& config, bool is_opener) {
  tmesh_mux_config mux{};
  mux.is_opener = is_opener;
  mux.initial_window_bytes = static_cast<uint32_t>(config.stream.initial_window_bytes);
  mux.window_threshold_bytes = static_cast<uint32_t>(config.stream.window_update_threshold_bytes);
  mux.window_max_bytes = static_cast<uint32_t>(config.limits.max_window_bytes);
  mux.violations_max = static_cast<uint32_t>(config.limits.window_violations_count);
  mux.violations_period_us = config.limits.window_violations_interval_us;
  mux.inbound_max_bytes = TMESH_WINDOW_INITIAL_BYTES;
  mux.outbound_max_bytes = TMESH_WINDOW_LEGACY_CAP_BYTES;
  mux.streams_max = static_cast<uint32_t>(config.stream.active_per_link_max);
  return mux;
}

}  // namespace tmesh::server
