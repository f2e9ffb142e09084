#include "cpp/reload/live_settings.hpp"

#include <algorithm>

namespace tmesh::reload {

void take_live(config::ProgramSettings& running, const config::ProgramSettings& fresh) {
  // One stream must not be able to take more.
  running.limits.max_window_bytes =
      std::min(fresh.limits.max_window_bytes, running.limits.memory_budget_bytes / 4);
  running.limits.window_violations_count = fresh.limits.window_violations_count;
  running.limits.window_violations_interval_us = fresh.limits.window_violations_interval_us;
  running.shutdown_timeout_us = fresh.shutdown_timeout_us;
  running.log = fresh.log;
  running.watches_files = fresh.watches_files;
}

}  // namespace tmesh::reload
