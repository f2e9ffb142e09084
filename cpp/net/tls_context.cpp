#include "cpp/net/tls_context.hpp"

#include <optional>

#include "core/wire/tls.h"
#include "cpp/base/file.hpp"
#include "cpp/base/redact.hpp"

namespace tmesh::net {

namespace {

// A PEM file in memory; wiped, because it may be a private key.
struct Pem {
  Pem() = default;
  Pem(const Pem&) = delete;
  Pem& operator=(const Pem&) = delete;
  ~Pem() { secure_wipe(text); }

  std::string text;

  // An error line, or nothing. An empty path is "not given".
  std::optional<std::string> read(const char* what, const std::string& path) {
    if (path.empty()) return std::nullopt;
    Result<std::string> content = read_file(path, TMESH_TLS_PEM_MAX_BYTES);
    if (!content) return std::string(what) + " " + path + ": " + content.error().text;
    text = std::move(*content);
    if (text.empty()) return std::string(what) + " " + path + ": the file is empty";
    return std::nullopt;
  }
  tmesh_tls_pem view() const { return {text.empty() ? nullptr : text.data(), text.size()}; }
};

std::string given(const std::string& path) {
  return path.empty() ? "(not set)" : path;
}

std::string explain(tmesh_tls_config_error error, const TlsFiles& files) {
  switch (error) {
    case TMESH_TLS_CONFIG_CERT:
      return "certificate " + given(files.cert) + ": not a PEM certificate";
    case TMESH_TLS_CONFIG_KEY:
      return "key " + given(files.key) + ": not an unencrypted PEM private key";
    case TMESH_TLS_CONFIG_KEY_PAIR:
      return "key " + given(files.key) + ": not the key of certificate " + given(files.cert);
    case TMESH_TLS_CONFIG_CA:
      return "CA file " + given(files.ca) + ": holds no PEM certificate";
    case TMESH_TLS_CONFIG_SYSTEM_CA:
      return "no CA bundle found on this system: name a CA file";
    case TMESH_TLS_CONFIG_OK:
    case TMESH_TLS_CONFIG_LIBRARY:
      break;
  }
  return "TLS cannot be set up: memory or random numbers are missing";
}

}  // namespace

std::expected<TlsContext, std::string> TlsContext::server(const TlsFiles& files) {
  TlsContext context(files, true);
  if (auto made = context.reload(); !made) return std::unexpected(made.error());
  return context;
}

std::expected<TlsContext, std::string> TlsContext::client(const TlsFiles& files) {
  TlsContext context(files, false);
  if (auto made = context.reload(); !made) return std::unexpected(made.error());
  return context;
}

TlsContext::TlsContext(TlsContext&& other) noexcept
    : files_(std::move(other.files_)),
      is_server_(other.is_server_),
      config_(std::exchange(other.config_, nullptr)) {}

TlsContext& TlsContext::operator=(TlsContext&& other) noexcept {
  if (this != &other) {
    files_ = std::move(other.files_);
    is_server_ = other.is_server_;
    std::swap(config_, other.config_);
  }
  return *this;
}

TlsContext::~TlsContext() {
  tmesh_tls_config_unref(config_);
}

std::expected<void, std::string> TlsContext::reload() {
  Pem cert;
  Pem key;
  Pem ca;
  if (auto error = cert.read("certificate", files_.cert)) return std::unexpected(*error);
  if (auto error = key.read("key", files_.key)) return std::unexpected(*error);
  if (auto error = ca.read("CA file", files_.ca)) return std::unexpected(*error);

  tmesh_tls_options options{};
  options.min_version = files_.needs_tls_1_3 ? TMESH_TLS_VERSION_1_3 : TMESH_TLS_VERSION_1_2;
  options.cert = cert.view();
  options.key = key.view();
  options.ca = ca.view();
  tmesh_tls_config* fresh = nullptr;
  tmesh_tls_config_error error = TMESH_TLS_CONFIG_OK;
  tmesh_status st = is_server_ ? tmesh_tls_config_new_server(&options, &fresh, &error)
                               : tmesh_tls_config_new_client(&options, &fresh, &error);
  if (!tmesh_is_ok(st)) return std::unexpected(explain(error, files_));
  tmesh_tls_config_unref(std::exchange(config_, fresh));
  return {};
}

}  // namespace tmesh::net
