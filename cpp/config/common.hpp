// What the typed configurations of the three programs share.
//
// All of them are plain values: built once by load.hpp from validated settings,
// copied freely, never changed by the program that uses them. Every number has
// been range-checked; times are microseconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cpp/base/log.hpp"
#include "cpp/base/url.hpp"

namespace tmesh::config {

// The window an acceptor has without saying so (requirement E3).
inline constexpr uint64_t kAcceptorWindowBytes = 262144;
// The one payload size of a DATA frame that every deployed peer takes (E3).
inline constexpr uint64_t kFramePayloadBytes = 32768;

struct LogSettings {
  log::Level level = log::Level::info;
  log::Format format = log::Format::text;
};

// Extensions a program announces; switching one off makes new links legacy (I2).
struct Capabilities {
  bool open_result = true;
  bool flow_control = true;
  bool fair_writer = true;
  bool early_data = true;     // needs open_result
  bool window_growth = true;  // needs flow_control
};

struct Limits {
  uint64_t max_window_bytes = 16777216;      // already lowered to memory_budget_bytes / 4
  uint64_t memory_budget_bytes = 268435456;  // all queues of the process together
  uint64_t window_violations_count = 256;    // this many within the interval end the link (E5)
  uint64_t window_violations_interval_us = 10000000;
  uint64_t stalled_close_timeout_us = 60000000;
};

// What each of the three programs has.
struct ProgramSettings {
  Capabilities capabilities;
  Limits limits;
  uint64_t shutdown_timeout_us = 10000000;
  LogSettings log;
  bool watches_files = true;  // config_watch
  std::string status_socket;  // empty: automatic
};

// Connection pool towards one server (requirements E6, J11).
struct PoolSettings {
  uint64_t min_count = 1;
  uint64_t max_count = 1;
  uint64_t high_watermark_count = 16;
  uint64_t low_watermark_count = 2;
  uint64_t evaluation_interval_us = 10000000;
  uint64_t cooldown_us = 30000000;
};

// One item that client or agent report about themselves.
struct MetadataItem {
  enum class Kind : uint8_t { file, env };
  std::string name;
  Kind source = Kind::env;
  std::string path;  // absolute, for file
  std::string key;   // variable name, for env
};

// How a client or agent reaches its server.
struct ServerLink {
  std::string url;      // as configured, for messages to the operator; no user info, no query
  Url endpoint;         // parsed; its path is /ws/agent or /ws/client when the URL has none
  std::string ca_file;  // empty: the system's certificates
};

}  // namespace tmesh::config
