// What a running client or agent tells on its status socket, as a value and as the JSON that
// `status --json` prints.
//
// Holds no secret and no target: what an entry listens on, which agent it uses and how the
// links are. Texts are the program's own, never a peer's or the system's. Bounded: links and
// entries beyond the limits are counted and left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cpp/session/slot_status.hpp"

namespace tmesh::session {

struct LinkReport {
  std::string agent;  // the client's links: whose; the agent's own: empty
  bool is_strict = false;
  SlotStatus slot;
};

struct EntryReport {
  std::string name;
  std::string protocol;
  std::string listen;            // "127.0.0.1:1080", "unix:/path"
  std::size_t locals_count = 0;  // local connections or associations that live
  uint64_t accepted_count = 0;
  uint64_t opens_count = 0;    // streams that were connected
  uint64_t refused_count = 0;  // opens that were not
  uint64_t dropped_count = 0;  // datagrams
};

struct StatusReport {
  // A client has at most 256 tunnels, and few have more links per agent than four; the JSON
  // of all of it stays below a megabyte.
  static constexpr std::size_t kLinksMax = 1024;
  static constexpr std::size_t kEntriesMax = 256;

  std::string_view program;  // "tunnelmesh-client"
  std::string_view version;
  int64_t pid = 0;
  std::string agent;         // of an agent: its id
  int64_t started_at_s = 0;  // since 1970
  uint64_t now_us = 0;       // Timers::now_us()
  uint64_t started_us = 0;   // the same clock
  bool is_stopping = false;
  std::vector<LinkReport> links;
  std::vector<EntryReport> entries;
  struct Counter {
    const char* name;  // static
    uint64_t value;
  };
  std::vector<Counter> counters;  // of the role, since its start
  std::size_t links_left_out = 0;
  std::size_t entries_left_out = 0;

  void add(LinkReport link);
  void add(EntryReport entry);
};

// One compact JSON object and a newline.
std::string status_json(const StatusReport& report);

}  // namespace tmesh::session
