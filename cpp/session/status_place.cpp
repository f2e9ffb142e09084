#include "cpp/session/status_place.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

namespace tmesh::session {
namespace {

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  // A relative path would be another place for whoever asks.
  return value != nullptr && value[0] == '/' ? value : "";
}

std::string join(const std::string& base, std::string_view role) {
  return base + "/tunnelmesh/" + std::string(role);
}

std::string tmp_folder(const StatusSurroundings& around, std::string_view role) {
  return around.tmp + "/tunnelmesh-" + std::to_string(around.user) + "/" + std::string(role);
}

bool is_own_folder(const std::string& folder, uid_t user) {
  struct stat found{};
  return ::lstat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
         (found.st_uid == user || found.st_uid == 0) && (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

}  // namespace

StatusSurroundings status_surroundings() {
  StatusSurroundings around;
  around.runtime_directory = environment("RUNTIME_DIRECTORY");
  around.runtime_directory.resize(around.runtime_directory.find(':') == std::string::npos
                                      ? around.runtime_directory.size()
                                      : around.runtime_directory.find(':'));
  around.xdg_runtime_dir = environment("XDG_RUNTIME_DIR");
  around.user = ::geteuid();
  return around;
}

std::string status_socket_name(unsigned number) {
  return number == 1 ? "status.sock" : "status-" + std::to_string(number) + ".sock";
}

std::vector<std::string> status_folders(const StatusSurroundings& around, std::string_view role) {
  std::vector<std::string> folders;
  if (!around.runtime_directory.empty()) folders.push_back(around.runtime_directory);
  if (!around.xdg_runtime_dir.empty()) folders.push_back(join(around.xdg_runtime_dir, role));
  if (around.user == 0) folders.push_back(join(around.run, role));
  folders.push_back(tmp_folder(around, role));
  return folders;
}

bool prepare_status_folder(const std::string& folder, uid_t user) {
  const std::string above = folder.substr(0, folder.rfind('/'));
  // For root the way to the socket is open, as /run is: its file is not.
  const mode_t mode = user == 0 ? 0755 : 0700;
  (void)::mkdir(above.c_str(), mode);
  if (!is_own_folder(above, user)) return false;
  (void)::mkdir(folder.c_str(), mode);
  return is_own_folder(folder, user);
}

std::vector<std::string> status_sockets_to_ask(const StatusSurroundings& around, std::string_view role) {
  std::vector<std::string> folders;
  if (!around.xdg_runtime_dir.empty()) folders.push_back(join(around.xdg_runtime_dir, role));
  folders.push_back(tmp_folder(around, role));
  folders.push_back(join(around.run, role));
  std::vector<std::string> sockets;
  for (const std::string& folder : folders) {
    for (unsigned number = 1; number <= kStatusSocketsMax; number++)
      sockets.push_back(folder + "/" + status_socket_name(number));
  }
  return sockets;
}

}  // namespace tmesh::session
