// One connection to a MySQL or MariaDB server, made and set up. Internal to cpp/storage, and
// with the statement the only place that knows the client library (MariaDB Connector/C or
// MySQL's libmysqlclient).
//
// Blocking; every wait has a limit from the options. One thread at a time, any thread.
#pragma once

#include <mysql.h>

#include <memory>
#include <string>
#include <string_view>

#include "cpp/storage/mysql_dsn.hpp"
#include "cpp/storage/mysql_error.hpp"

namespace tmesh::storage {

struct MysqlOptions {
  MysqlDsn dsn;
  // On: TLS 1.2 or later or no connection; certificate and name of the server are verified
  // against `ca_file`, or the system's authorities when that is empty. Off: no TLS.
  bool is_tls = false;
  std::string ca_file, cert_file, key_file;
  // How long a statement waits for rows or tables that another one has locked.
  int lock_wait_s = 5;
};

struct CloseMysql {
  void operator()(MYSQL* mysql) const { mysql_close(mysql); }
};
using MysqlHandle = std::unique_ptr<MYSQL, CloseMysql>;

struct MysqlRefusal {
  unsigned number = 0;
  std::string reason;  // mysql_connect_reason()
};

// Connects and sets the session up: utf8mb4, strict SQL mode, REPEATABLE READ, limits of
// waiting; UPDATE counts the rows it matched, LOAD DATA LOCAL is refused (a server could ask
// for any file of this machine with it), nothing is read from option files.
std::expected<MysqlHandle, MysqlRefusal> mysql_connect(const MysqlOptions& options);

// Whether nothing has come from the server since its last answer. What comes unasked is its
// farewell, so that a statement need not be sent into the dark. Costs one system call.
bool mysql_is_quiet(MYSQL* mysql);

// The fault of the last call that failed on this handle.
MysqlFault mysql_last_fault(MYSQL* mysql);

// One statement without parameters in the text protocol, for what cannot be prepared on every
// server. Rows it might give are dropped. `rows_matched` may be null.
std::expected<void, MysqlFault> mysql_run_text(MYSQL* mysql, std::string_view sql,
                                               uint64_t* rows_matched = nullptr);

// Some client libraries keep memory for each thread that uses them; it is released when the
// thread ends. Called by each entry of the driver.
void mysql_use_thread();

}  // namespace tmesh::storage
