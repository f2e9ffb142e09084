// What a reload makes of a configuration: the parts that do not depend on the role.
//
// compare() is pure; judge() also logs. Neither touches the program.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "cpp/config/load.hpp"

namespace tmesh::config {

// Keys of the role whose values differ, by what a reload can do about them. Where a file is
// named, only its name is compared.
struct Changes {
  std::vector<std::string_view> live;
  std::vector<std::string_view> restart;
};
Changes compare(const Settings& running, const Settings& fresh, Role role);

// Reloads by result, for tunnelmesh_config_reload_total.
struct ReloadStats {
  uint64_t applied_count = 0;
  uint64_t refused_count = 0;  // the running configuration was kept
};

// Whether the fresh configuration may be applied. Says in the log what is wrong with it, or
// which keys wait for a restart; `started` is what the program was started with. Counts.
bool judge(const Settings& started, const Settings& fresh, const Problems& problems, Role role,
           ReloadStats& stats);

}  // namespace tmesh::config
