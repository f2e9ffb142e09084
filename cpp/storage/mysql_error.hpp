// Error numbers of MySQL and MariaDB, servers and client libraries, as errors of db.hpp.
// Internal to cpp/storage.
#pragma once

#include <string>
#include <string_view>

#include "cpp/storage/db.hpp"

namespace tmesh::storage {

// What a statement failed with.
struct MysqlFault {
  unsigned number = 0;
  Error error;
  // The connection is of no use any more.
  bool is_lost = false;
  // The statement surely had no effect, whatever became of the connection.
  bool never_ran = false;
  // The server has undone the transaction, or it has to be undone before it goes on.
  bool ends_transaction = false;
};

// `message` is the library's text; looked at only where the number alone says too little, and
// never passed on.
MysqlFault mysql_fault(unsigned number, std::string_view message);

// Why a connection could not be made, for the person who starts the program. Without user and
// password. `message` is passed on for failures of TLS only.
std::string mysql_connect_reason(unsigned number, std::string_view message);

}  // namespace tmesh::storage
