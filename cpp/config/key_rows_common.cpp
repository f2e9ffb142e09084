// Keys that every program reads, or that belong to the deployment as a whole.
#include <array>

#include "cpp/config/checks.hpp"
#include "cpp/config/key_rows.hpp"

namespace tmesh::config::rows {
namespace {

constexpr std::array kRows = {
    choice("mode", "local|cluster", "local", kServer,
           "one server with its own SQLite, or several on one MySQL"),
    choice("storage.driver", "sqlite|mysql", "sqlite", kServer, "database").flag("storage-driver"),
    text("storage.sqlite.path", "tunnelmesh.db", kServer, "database file").checked(check_no_control),
    boolean("storage.auto_init", "true", kServer, "create or upgrade the schema at start")
        .flag("storage-auto-init"),
    text("storage.mysql.dsn", "", kServer, "user:password@tcp(host:port)/database")
        .checked(check_no_control)
        .secret(),
    text("storage.mysql.dsn_file", "", kServer, "file that holds the DSN; mode 0600")
        .checked(check_no_control),
    boolean("storage.mysql.tls", "false", kServer,
            "encrypt and verify the database connection; overrides the DSN's own setting"),
    text("storage.mysql.ca", "", kServer, "CA certificates for the database").checked(check_no_control),
    text("storage.mysql.cert", "", kServer, "client certificate for the database").checked(check_no_control),
    text("storage.mysql.key", "", kServer, "key of that certificate").checked(check_no_control),
    choice("registry.type", "database|etcd", "database", kServer, "where servers find one another")
        .flag("registry")
        .no_effect("registry"),
    list("registry.endpoints", "", kServer, "addresses of the registry").no_effect("registry"),
    text("node.id", "", kServer,
         "identity of this server among those of its database; empty: node.id_path, or derived")
        .checked(check_node_id)
        .flag("node-id"),
    text("node.id_path", "/var/lib/tunnelmesh/node-id", kServer,
         "file with the identity, made by init-node-id; need not exist")
        .checked(check_no_control)
        .flag("node-id-path"),
    list("security.allowed_hosts", "", kServer, "Host headers that are served; empty = any")
        .checked(check_allowed_host),
    list("security.allowed_origins", "", kServer, "Origin headers that are served; empty = any bare origin")
        .checked(check_origin),
    boolean("security.allow_legacy_connection_tokens", "false", kServer,
            "let agents connect with a management token (deprecated)")
        .no_effect("security.allow_legacy_connection_tokens"),
    duration("security.auth.session_token_ttl", "0s", kServer,
             "how long a login to the HTTP API lasts; 0s = until it is revoked")
        .range(0, 3650 * kDay),
    count("security.auth.login_throttle.max_attempts", "10", kServer,
          "failed logins of one name or one address within the window that block it")
        .range(1, 1000),
    duration("security.auth.login_throttle.window", "5m", kServer, "time in which failed logins count")
        .range(kSecond, kDay),
    duration("security.auth.login_throttle.block", "10m", kServer, "how long no login is tried then")
        .range(kSecond, kDay),
    make("security.auth", Type::tree, "", kServer, "sign-in options of later versions")
        .unavailable("security.auth"),
    boolean("tls.enabled", "false", kServer, "serve HTTPS and WSS on server.http_addr"),
    text("tls.cert_file", "", kServer, "certificate chain, PEM").checked(check_no_control).live(),
    text("tls.key_file", "", kServer, "key of the certificate, PEM").checked(check_no_control).live(),
    choice("tls.min_version", "1.2|1.3", "1.2", kServer, "oldest TLS version accepted").live(),
    text("downloads.github_repository", "", kServer, "owner/name shown on the download page")
        .checked(check_no_control)
        .no_effect("downloads"),
};

}  // namespace

std::span<const Key> common() {
  return kRows;
}

}  // namespace tmesh::config::rows
