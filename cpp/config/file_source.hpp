// A configuration file into Settings (private to this folder).
#pragma once

#include <string>

#include "cpp/config/key_table.hpp"
#include "cpp/config/problems.hpp"
#include "cpp/config/settings.hpp"
#include "cpp/config/sources.hpp"

namespace tmesh::config {

// Reads and applies the file of the source. Where the source has a tunnel of its own,
// client.tunnels is checked but not kept. Returns the print of what was read.
uint64_t apply_file(const Source& source, Role role, Settings& settings, Problems& problems);

// Stores the texts if every one is valid for the key; otherwise says so and marks
// the setting as refused. A list gets the texts as its items.
void store(Setting& setting, const Key& key, std::vector<std::string> texts, Origin origin,
           Problems& problems, std::string_view shown_path);

}  // namespace tmesh::config
