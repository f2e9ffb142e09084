#include "cpp/storage/mysql_connection.hpp"

#include <poll.h>

#include <algorithm>

namespace tmesh::storage {
namespace {

#if defined(MARIADB_BASE_VERSION) || defined(MARIADB_PACKAGE_VERSION)
#define TMESH_MARIADB_CLIENT 1
#else
#define TMESH_MARIADB_CLIENT 0
#endif

// One answer's largest packet: the largest value we read, and room for its row. Without a
// limit a server could make us allocate 1 GiB.
constexpr unsigned long packet_bytes_max = 32UL * 1024 * 1024;

bool set(MYSQL* mysql, mysql_option option, const void* value) {
  return mysql_options(mysql, option, value) == 0;
}
bool set_uint(MYSQL* mysql, mysql_option option, unsigned value) {
  return set(mysql, option, &value);
}
bool set_path(MYSQL* mysql, mysql_option option, const std::string& path) {
  return path.empty() || set(mysql, option, path.c_str());
}

bool set_tls(MYSQL* mysql, const MysqlOptions& options) {
#if TMESH_MARIADB_CLIENT
  const my_bool is_on = options.is_tls ? 1 : 0;
  // Enforced alone accepts any certificate; that verified alone refuses a server without TLS
  // is not promised.
  if (!set(mysql, MYSQL_OPT_SSL_ENFORCE, &is_on)) return false;
  if (!set(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &is_on)) return false;
#else
  if (!set_uint(mysql, MYSQL_OPT_SSL_MODE, options.is_tls ? SSL_MODE_VERIFY_IDENTITY : SSL_MODE_DISABLED)) {
    return false;
  }
#endif
  if (!options.is_tls) return true;
  return set_path(mysql, MYSQL_OPT_SSL_CA, options.ca_file) &&
         set_path(mysql, MYSQL_OPT_SSL_CERT, options.cert_file) &&
         set_path(mysql, MYSQL_OPT_SSL_KEY, options.key_file) &&
         set(mysql, MYSQL_OPT_TLS_VERSION, "TLSv1.2,TLSv1.3");
}

bool set_options(MYSQL* mysql, const MysqlOptions& options) {
  const MysqlDsn& dsn = options.dsn;
  // "localhost" would mean the Unix socket of the system's own server.
  const unsigned protocol = dsn.host.empty() ? MYSQL_PROTOCOL_SOCKET : MYSQL_PROTOCOL_TCP;
  return set_uint(mysql, MYSQL_OPT_PROTOCOL, protocol) &&
         set_uint(mysql, MYSQL_OPT_CONNECT_TIMEOUT, static_cast<unsigned>(dsn.connect_timeout_s)) &&
         set_uint(mysql, MYSQL_OPT_READ_TIMEOUT, static_cast<unsigned>(dsn.read_timeout_s)) &&
         set_uint(mysql, MYSQL_OPT_WRITE_TIMEOUT, static_cast<unsigned>(dsn.write_timeout_s)) &&
         set_uint(mysql, MYSQL_OPT_LOCAL_INFILE, 0) &&
         set(mysql, MYSQL_OPT_MAX_ALLOWED_PACKET, &packet_bytes_max) &&
         set(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4") &&
         mysql_options4(mysql, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "tunnelmesh-server") == 0 &&
         set_tls(mysql, options);
}

std::expected<void, MysqlFault> set_session(MYSQL* mysql, int lock_wait_s) {
  const std::string wait = std::to_string(lock_wait_s);
  // Strict: what does not fit is an error and never cut. The lock of a table's definition is
  // waited for a year by default.
  const std::string variables =
      "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', autocommit = 1, "
      "innodb_lock_wait_timeout = " +
      wait + ", lock_wait_timeout = " + wait;
  if (auto done = mysql_run_text(mysql, variables); !done) return done;
  // READ COMMITTED would lock less, but MySQL 5.6 refuses it with its default binary log.
  return mysql_run_text(mysql, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ");
}

MysqlRefusal refusal(unsigned number, std::string_view message) {
  return {number, mysql_connect_reason(number, message)};
}

struct ThreadUse {
  ThreadUse() { mysql_thread_init(); }
  ~ThreadUse() { mysql_thread_end(); }
};

}  // namespace

void mysql_use_thread() {
  // Never ended: other threads may still be in the library while this process exits.
  [[maybe_unused]] static const int library = mysql_library_init(0, nullptr, nullptr);
  [[maybe_unused]] static thread_local const ThreadUse use;
}

std::expected<MysqlHandle, MysqlRefusal> mysql_connect(const MysqlOptions& options) {
  MysqlHandle handle(mysql_init(nullptr));
  if (!handle) return std::unexpected(MysqlRefusal{0, "no memory for the connection"});
  MYSQL* mysql = handle.get();
  if (!set_options(mysql, options)) {
    return std::unexpected(MysqlRefusal{0, "the client library lacks an option that is needed"});
  }
  const MysqlDsn& dsn = options.dsn;
  const bool is_tcp = !dsn.host.empty();
  // Never null pointers: those would be filled from the environment.
  const MYSQL* connected = mysql_real_connect(
      mysql, is_tcp ? dsn.host.c_str() : "localhost", dsn.user.c_str(), dsn.password.c_str(),
      dsn.database.c_str(), dsn.port, is_tcp ? nullptr : dsn.socket_path.c_str(), CLIENT_FOUND_ROWS);
  if (connected == nullptr) return std::unexpected(refusal(mysql_errno(mysql), mysql_error(mysql)));
  const bool is_encrypted = mysql_get_ssl_cipher(mysql) != nullptr;
  if (options.is_tls && !is_encrypted) {
    return std::unexpected(MysqlRefusal{0, "TLS: the connection is not encrypted"});
  }
  const int lock_wait_s = std::clamp(options.lock_wait_s, 1, dsn.read_timeout_s - 1);
  if (auto done = set_session(mysql, lock_wait_s); !done) {
    return std::unexpected(MysqlRefusal{done.error().number, done.error().error.text});
  }
  return handle;
}

bool mysql_is_quiet(MYSQL* mysql) {
#if TMESH_MARIADB_CLIENT
  const int fd = mysql_get_socket(mysql);
#else
  const int fd = mysql->net.fd;
#endif
  pollfd entry{fd, POLLIN, 0};
  return fd >= 0 && ::poll(&entry, 1, 0) == 0;
}

MysqlFault mysql_last_fault(MYSQL* mysql) {
  return mysql_fault(mysql_errno(mysql), mysql_error(mysql));
}

std::expected<void, MysqlFault> mysql_run_text(MYSQL* mysql, std::string_view sql, uint64_t* rows_matched) {
  if (mysql_real_query(mysql, sql.data(), sql.size()) != 0) return std::unexpected(mysql_last_fault(mysql));
  if (mysql_field_count(mysql) != 0) {
    MYSQL_RES* rows = mysql_store_result(mysql);
    if (rows == nullptr) return std::unexpected(mysql_last_fault(mysql));
    mysql_free_result(rows);
  }
  if (rows_matched != nullptr) *rows_matched = mysql_affected_rows(mysql);
  return {};
}

}  // namespace tmesh::storage
