// The files that quickstart creates, and their removal when it fails. Internal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cpp/base/address.hpp"
#include "cpp/base/redact.hpp"
#include "cpp/base/result.hpp"

namespace tmesh::server {

// Removes what was created unless keep() is called: files in reverse order, then the
// directory if it did not exist before.
class QuickstartFiles {
 public:
  QuickstartFiles() = default;
  QuickstartFiles(const QuickstartFiles&) = delete;
  QuickstartFiles& operator=(const QuickstartFiles&) = delete;
  ~QuickstartFiles();

  // Makes the directory (0700) if it is not there. TMESH_E_IO with the reason.
  Result<void> enter(const std::string& directory);
  // Absolute, without symbolic links; after enter().
  const std::string& directory() const { return directory_; }
  std::string path(std::string_view name) const { return directory_ + '/' + std::string(name); }

  // Creates an empty file (0600) that must not exist. `extra_suffixes` name files that
  // may appear beside it and belong to it.
  Result<void> create(std::string_view name, const std::vector<std::string>& extra_suffixes = {});
  // Gives a file of create() its content, on the disk before this returns.
  Result<void> fill(std::string_view name, std::string_view content);

  void keep() { is_kept_ = true; }

 private:
  std::string directory_;
  std::vector<std::string> created_;
  bool is_directory_ours_ = false;
  bool is_kept_ = false;
};

struct QuickstartSetup {
  std::string database_path;
  HostPort listen;
  HostPort socks5;
  std::string server_url;  // ws:// or wss://, without a path and slash at the end
  std::string agent_id;
  std::string agent_name;
  Secret agent_token;
  Secret client_token;
};

std::string server_yaml(const QuickstartSetup& setup);
std::string agent_yaml(const QuickstartSetup& setup);
std::string client_yaml(const QuickstartSetup& setup);

}  // namespace tmesh::server
