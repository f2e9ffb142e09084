// Opens the configured database, whichever engine it is.
//
// The one place that knows both engines; everything behind it sees a Db. Blocking.
#pragma once

#include <memory>
#include <string>

#include "cpp/base/redact.hpp"
#include "cpp/storage/db.hpp"

namespace tmesh::storage {

struct DatabaseSettings {
  Driver driver = Driver::sqlite;
  std::string sqlite_path;
  // "user:password@tcp(host:port)/database?parameters", as deployed configurations have it.
  Secret mysql_dsn;
  // Overrides the `tls` parameter of the DSN in both directions (LESSONS R31). On: the
  // server's certificate and name are verified.
  bool is_mysql_tls = false;
  std::string mysql_ca_file, mysql_cert_file, mysql_key_file;
};

struct OpenOptions {
  bool create = false;      // SQLite: make a file that is not there
  int lock_wait_ms = 5000;  // how long a change may wait for another writer
  // MySQL: how long an answer of the server, or a connection to it, is waited for, where that
  // is less than what the DSN says. 0: as the DSN says.
  int answer_wait_ms = 0;
  // SQLite: the file is opened for reading, and its journal stays as it is. MySQL: the same
  // connection as ever; whoever asks for this only reads.
  bool is_read_only = false;
};

// A connection that works now; a MySQL one reconnects by itself outside of transactions.
// The Problem names the file, or host and database, never user or password.
Opened<std::unique_ptr<Db>> open_database(const DatabaseSettings& settings, const OpenOptions& options);

}  // namespace tmesh::storage
