#include "cpp/server/quickstart_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "cpp/base/file.hpp"
#include "cpp/base/json.hpp"
#include "cpp/base/random.hpp"

namespace tmesh::server {
namespace {

std::unexpected<Error> io_error(int error_number) {
  return fail(error_number == ENOSPC ? TMESH_E_LIMIT : TMESH_E_IO, file_error_text(error_number));
}

// A JSON string is a double-quoted YAML scalar.
std::string quoted(std::string_view text) {
  std::string out;
  json::append_quoted(out, text);
  return out;
}

std::string address(const HostPort& where) {
  return quoted(format_host_port(where.host, where.port));
}

}  // namespace

QuickstartFiles::~QuickstartFiles() {
  if (is_kept_) return;
  for (auto path = created_.rbegin(); path != created_.rend(); ++path) (void)::unlink(path->c_str());
  if (is_directory_ours_) (void)::rmdir(directory_.c_str());
}

Result<void> QuickstartFiles::enter(const std::string& directory) {
  if (::mkdir(directory.c_str(), 0700) == 0) {
    is_directory_ours_ = true;
  } else if (errno != EEXIST) {
    return io_error(errno);
  }
  directory_ = directory;  // for the removal, should the rest fail
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(directory.c_str(), nullptr), &std::free);
  if (real == nullptr) return io_error(errno);
  directory_ = real.get();
  struct stat about{};
  if (::stat(real.get(), &about) != 0) return io_error(errno);
  if (!S_ISDIR(about.st_mode)) return fail(TMESH_E_IO, "not a directory");
  return {};
}

Result<void> QuickstartFiles::create(std::string_view name, const std::vector<std::string>& extra_suffixes) {
  const std::string file = path(name);
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return errno == EEXIST ? fail(TMESH_E_STATE, "exists already") : Result<void>(io_error(errno));
  ::close(fd);
  created_.push_back(file);
  for (const std::string& suffix : extra_suffixes) created_.push_back(file + suffix);
  return {};
}

Result<void> QuickstartFiles::fill(std::string_view name, std::string_view content) {
  return write_file(path(name), content, 0600);
}

std::string server_yaml(const QuickstartSetup& setup) {
  return "# TunnelMesh server. `tunnelmesh-server check-config --config FILE` explains every problem.\n"
         "mode: local\n"
         "storage:\n"
         "  driver: sqlite\n"
         "  sqlite:\n"
         "    path: " +
         quoted(setup.database_path) +
         "\n"
         "server:\n"
         "  http_addr: " +
         address(setup.listen) + "\n";
}

std::string agent_yaml(const QuickstartSetup& setup) {
  return "# TunnelMesh agent. The token is a secret: keep this file private.\n"
         "agent:\n"
         "  server_url: " +
         quoted(setup.server_url + "/ws/agent") +
         "\n"
         "  id: " +
         quoted(setup.agent_id) +
         "\n"
         "  instance_id: " +
         quoted("agent-" + random_hex(16)) +
         "\n"
         "  token: " +
         quoted(setup.agent_token.reveal()) + "\n";
}

std::string client_yaml(const QuickstartSetup& setup) {
  return "# TunnelMesh client. The token is a secret: keep this file private.\n"
         "client:\n"
         "  server_url: " +
         quoted(setup.server_url + "/ws/client") +
         "\n"
         "  instance_id: " +
         quoted("client-" + random_hex(16)) +
         "\n"
         "  token: " +
         quoted(setup.client_token.reveal()) +
         "\n"
         "  tunnels:\n"
         "    - name: socks5\n"
         "      protocol: socks5\n"
         "      listen: " +
         address(setup.socks5) +
         "\n"
         "      agent_id: " +
         quoted(setup.agent_id) + "\n";
}

}  // namespace tmesh::server
