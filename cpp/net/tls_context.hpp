// A TLS configuration made from files: one per role, shared by its connections.
//
// Reading parses PEM (blocking, milliseconds): start-up and SIGHUP only. A reload that
// fails leaves the old certificates in use; connections that exist keep theirs.
#pragma once

#include <expected>
#include <string>
#include <utility>

struct tmesh_tls_config;

namespace tmesh::net {

struct TlsFiles {
  std::string cert;            // own certificate with its intermediates; a server needs it
  std::string key;             // unencrypted
  std::string ca;              // whom to trust; client: empty = the system's bundle; server:
                               // empty = no client certificates are asked for
  bool needs_tls_1_3 = false;  // otherwise 1.2 is accepted too
};

class TlsContext {
 public:
  // The error is one line for a person that names the file at fault.
  static std::expected<TlsContext, std::string> server(const TlsFiles& files);
  static std::expected<TlsContext, std::string> client(const TlsFiles& files);

  TlsContext(TlsContext&& other) noexcept;
  TlsContext& operator=(TlsContext&& other) noexcept;
  ~TlsContext();

  // Reads the same files again.
  std::expected<void, std::string> reload();
  // Borrowed; a connection takes its own reference.
  tmesh_tls_config* raw() const { return config_; }
  bool is_server() const { return is_server_; }

 private:
  TlsContext(TlsFiles files, bool is_server) : files_(std::move(files)), is_server_(is_server) {}

  TlsFiles files_;
  bool is_server_ = false;
  tmesh_tls_config* config_ = nullptr;
};

}  // namespace tmesh::net
