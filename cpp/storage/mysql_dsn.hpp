// The data source name of a MySQL database, as go-sql-driver writes it and deployed
// configurations have it:
//
//   [user[:password]@][tcp[(host[:port])]|unix[(/path)]]/database[?parameter=value&...]
//
// Pure. No text made here holds the user, the password or any other piece of a DSN that
// could be one of them in the wrong place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cpp/base/redact.hpp"
#include "cpp/storage/db.hpp"

namespace tmesh::storage {

struct MysqlDsn {
  // A database on the local network answers within a second; the longest statement of
  // this program, a step of a migration, takes a few.
  static constexpr int connect_timeout_default_s = 5;
  static constexpr int io_timeout_default_s = 30;
  // A worker may hang this long on a dead server; nobody means more.
  static constexpr int timeout_max_s = 300;
  static constexpr uint16_t port_default = 3306;

  std::string user;
  Secret password;
  std::string host;  // without brackets; empty: a Unix socket
  uint16_t port = port_default;
  std::string socket_path;
  std::string database;
  // `timeout`, `readTimeout` and `writeTimeout`, rounded up to whole seconds, which is what
  // client libraries know. 0 in a DSN means "for ever" to others and the default to us. A
  // read waits at least 2 s, so that a lock's wait of one second ends before it.
  int connect_timeout_s = connect_timeout_default_s;
  int read_timeout_s = io_timeout_default_s;
  int write_timeout_s = io_timeout_default_s;
  // `tls` is there and not "false". Whether TLS is used is decided by storage.mysql.tls.
  bool asks_for_tls = false;

  // "host:port/database" or "/path/database", for messages.
  std::string where() const;
};

// Parameters that only tell another driver how to behave (parseTime, loc, collation, ...) and
// session variables that we set ourselves are accepted and have no effect; `charset` must be one
// that UTF-8 covers; any other parameter is refused. The problem text begins with
// "storage.mysql.dsn: "; its code is TMESH_E_INVALID.
Opened<MysqlDsn> parse_mysql_dsn(std::string_view dsn);

}  // namespace tmesh::storage
