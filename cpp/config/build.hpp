// Parts of the typed configurations that the programs share (private to this folder).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cpp/base/file_print.hpp"
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
  FilePrints files;  // Loaded::files

  void error(std::string_view path, std::string message) {
    problems.error(where(path), path, std::move(message));
  }
  void warn(std::string_view path, std::string message) {
    problems.warn(where(path), path, std::move(message));
  }
  // The value's origin; for a default the file, if there is one.
  Origin where(std::string_view path) const;
  // Reports a key that has no value and needs one.
  void require(std::string_view path);
  // Whether the configuration has to be complete; files are looked at then.
  bool is_whole() const { return purpose == Purpose::run || purpose == Purpose::check; }
  bool reads_secrets() const { return purpose != Purpose::print; }
  // Reports a configured file that cannot be read.
  void require_readable(std::string_view path);
};

// `role` is the first part of the paths: "server", "agent" or "client".
void build_program(Build& build, const std::string& role, ProgramSettings& out);
PoolSettings build_pool(Build& build, const std::string& role);
std::vector<MetadataItem> build_metadata(Build& build, const std::string& role);
ServerLink build_server_link(Build& build, const std::string& role, std::string_view default_path);
Secret build_token(Build& build, const std::string& role);

// Where a secret may come from.
struct SecretSource {
  std::string value_path;       // key that holds it; empty = none
  std::string file_path;        // key that names a file with it
  std::string credential_name;  // file in the service manager's folder
};
struct FoundSecret {
  Secret value;  // without the white space at its end; empty: there is none, or a problem was reported
  Origin where;
};
// From the source of the highest origin: flag, environment, credential, file. It is a
// problem when two are set side by side.
FoundSecret build_secret(Build& build, const SecretSource& source);
// The same for what an environment variable or a credential holds, or a file that a key names.
FoundSecret build_variable_secret(Build& build, const char* variable, const std::string& file_path,
                                  const std::string& credential_name);

ServerConfig build_server(Build& build);
AgentConfig build_agent(Build& build);
ClientConfig build_client(Build& build);
std::vector<Tunnel> build_tunnels(Build& build);

}  // namespace tmesh::config
