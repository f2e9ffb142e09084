// The MySQL driver, for MySQL 5.6 and later and MariaDB, over MariaDB Connector/C or MySQL's
// own client library.
//
// A connection that the server or the network ended is made again, once for each call: a
// query is then run again, a change only if it surely did not run. Inside a transaction
// nothing is run again: the transaction fails, and the next one begins on a new connection. A
// commit whose outcome is not known is TMESH_E_IO; so is a change outside of a transaction.
//
// A deadlock or a lock that is not given in time undoes the whole transaction at once
// (TMESH_E_TIMEOUT), and what is still tried inside it fails the same way.
//
// Transactions are REPEATABLE READ. A read transaction is one unchanging view. In a write
// transaction a SELECT sees such a view, too, unless it ends with lock_suffix(), which reads
// and locks the rows as they are now: what a change depends on is read that way.
//
// Statements are prepared once for each connection and kept, at most 64 of them. The rows of
// a query are held in memory until it ends.
#pragma once

#include <memory>

#include "cpp/storage/db.hpp"
#include "cpp/storage/mysql_connection.hpp"

namespace tmesh::storage {

// Connects. Does not look at the schema (migrator.hpp). The problem text begins with host and
// database.
Opened<std::unique_ptr<Db>> open_mysql(MysqlOptions options);

}  // namespace tmesh::storage
