// Parts of the typed configurations that the programs share (private to this folder).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cpp/base/redact.hpp"
#include "cpp/config/common.hpp"
#include "cpp/config/load.hpp"
#include "cpp/config/problems.hpp"
#include "cpp/config/settings.hpp"

namespace tmesh::config {

// What a builder works on.
struct Build {
  const Source& source;
  Purpose purpose;
  Settings& settings;
  Problems& problems;

  void error(std::string_view path, std::string message) {
    problems.error(where(path), path, std::move(message));
  }
  void warn(std::string_view path, std::string message) {
    problems.warn(where(path), path, std::move(message));
  }
  // The value's origin; for a default the file, if there is one.
  Origin where(std::string_view path) const;
  // Reports a key that has no value and needs one, unless the purpose is to print.
  void require(std::string_view path);
  bool looks_at_files() const { return purpose != Purpose::print; }
  // Reports a configured file that cannot be read.
  void require_readable(std::string_view path);
};

// `role` is the first part of the paths: "server", "agent" or "client".
Capabilities build_capabilities(Build& build, const std::string& role);
Limits build_limits(Build& build, const std::string& role);
LogSettings build_log(Build& build, const std::string& role);
PoolSettings build_pool(Build& build, const std::string& role);
std::vector<MetadataItem> build_metadata(Build& build, const std::string& role);
ServerLink build_server_link(Build& build, const std::string& role, std::string_view default_path);
// From role.token or role.token_file, whichever has the higher origin.
Secret build_token(Build& build, const std::string& role);

// The content of a secret file without the white space at its end; empty after a problem.
Secret read_secret(Build& build, std::string_view path);

ServerConfig build_server(Build& build);
AgentConfig build_agent(Build& build);
ClientConfig build_client(Build& build);
std::vector<Tunnel> build_tunnels(Build& build);

}  // namespace tmesh::config
