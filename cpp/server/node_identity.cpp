#include "cpp/server/node_identity.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "core/wire/digest.h"
#include "cpp/base/encoding.hpp"
#include "cpp/base/file.hpp"
#include "cpp/base/parse.hpp"
#include "cpp/base/random.hpp"

namespace tmesh::server {
namespace {

constexpr std::size_t id_bytes_max = 255;  // the column that stores it
constexpr const char* machine_id_path = "/etc/machine-id";

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

// nullopt: there is no file.
Result<std::optional<std::string>> read_kept(const std::string& path) {
  if (path.empty() || (::access(path.c_str(), F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR))) {
    return std::optional<std::string>();
  }
  const Result<std::string> text = read_file(path, id_bytes_max + 16);
  if (!text) return std::unexpected(text.error());
  const std::string_view id = trim(*text);
  if (id.empty() || id.size() > id_bytes_max || has_space_or_control(id))
    return fail(TMESH_E_INVALID, "the file holds no usable id");
  return std::optional<std::string>(id);
}

}  // namespace

std::string derive_node_id(std::string_view machine_id, std::string_view host_name, const HostPort& listen) {
  std::string text;
  for (const std::string_view part : {trim(machine_id), trim(host_name)}) text += std::string(part) + '\n';
  text += format_host_port(listen.host, listen.port);
  std::array<uint8_t, TMESH_SHA256_BYTES> digest{};
  tmesh_sha256(digest.data(), text.data(), text.size());
  return "server-" + hex_encode(std::span(digest).first(16));
}

Result<std::string> node_id(const NodeIdSource& source, const HostPort& listen) {
  if (!source.configured.empty()) return source.configured;
  Result<std::optional<std::string>> kept = read_kept(source.path);
  if (!kept) return std::unexpected(kept.error());
  if (kept->has_value()) return std::move(**kept);
  // Without a machine id (containers) the host name has to do.
  const Result<std::string> machine_id = read_file(machine_id_path, 256);
  return derive_node_id(machine_id ? *machine_id : "", host_name(), listen);
}

std::string node_address(const HostPort& listen) {
  const bool is_any = listen.host.empty() || listen.host == "0.0.0.0" || listen.host == "::";
  return format_host_port(is_any ? host_name() : listen.host, listen.port);
}

Result<InitialNodeId> init_node_id(const NodeIdSource& source) {
  if (!source.configured.empty()) return InitialNodeId{source.configured, false};
  Result<std::optional<std::string>> kept = read_kept(source.path);
  if (!kept) return std::unexpected(kept.error());
  if (kept->has_value()) return InitialNodeId{std::move(**kept), false};
  if (source.path.empty()) return fail(TMESH_E_INVALID, "no file is configured");
  InitialNodeId made{"server-" + random_hex(16), true};
  const std::size_t slash = source.path.rfind('/');
  if (slash != std::string::npos && slash > 0) ::mkdir(source.path.substr(0, slash).c_str(), 0755);
  // No secret, and the server may run as another user than who prepares the machine.
  if (Result<void> done = write_file(source.path, made.id + "\n", 0644); !done)
    return std::unexpected(done.error());
  return made;
}

}  // namespace tmesh::server
