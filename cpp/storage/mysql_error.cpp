#include "cpp/storage/mysql_error.hpp"

#include <errmsg.h>
#include <mysqld_error.h>

namespace tmesh::storage {
namespace {

// Not in the headers of every client library.
constexpr unsigned er_access_denied_no_password = 1698;
constexpr unsigned er_read_only_transaction = 1792;
constexpr unsigned er_read_only_mode = 1836;
constexpr unsigned er_connection_killed = 1927;
constexpr unsigned er_no_wait_lock = 3572;
constexpr unsigned er_check_mysql = 3819;
constexpr unsigned er_check_mariadb = 4025;
constexpr unsigned er_idle_disconnect = 4031;
constexpr unsigned cr_auth_plugin_error = 2061;

// "Got error 28 from storage engine", "(Errcode: 28 ...)": the number of ENOSPC.
bool says_no_space(std::string_view message) {
  return message.find("rror 28 ") != std::string_view::npos ||
         message.find("rrcode: 28 ") != std::string_view::npos;
}

}  // namespace

MysqlFault mysql_fault(unsigned number, std::string_view message) {
  MysqlFault fault;
  fault.number = number;
  const auto set = [&fault](tmesh_code code, const char* text) {
    fault.error = Error{code, TMESH_SCOPE_STREAM, text};
    return fault;
  };
  switch (number) {
    case ER_CON_COUNT_ERROR:
    case ER_SERVER_SHUTDOWN:
    case er_connection_killed:
    case er_idle_disconnect:
      // The answer to a statement that was not begun, or was undone as a whole.
      fault.is_lost = fault.never_ran = true;
      return set(TMESH_E_IO, "the connection to the database was ended");
    case CR_SERVER_GONE_ERROR:
      // The library could not even send it.
      fault.is_lost = fault.never_ran = true;
      return set(TMESH_E_IO, "the connection to the database is lost");
    case CR_SERVER_LOST:
    case CR_SERVER_LOST_EXTENDED:
    case CR_SSL_CONNECTION_ERROR:
    case CR_MALFORMED_PACKET:
    case CR_COMMANDS_OUT_OF_SYNC:
    case CR_UNKNOWN_ERROR:
      fault.is_lost = true;
      return set(TMESH_E_IO, "the connection to the database is lost");
    case ER_LOCK_DEADLOCK:
      fault.ends_transaction = true;
      return set(TMESH_E_TIMEOUT, "two changes kept each other waiting");
    case ER_LOCK_WAIT_TIMEOUT:
    case er_no_wait_lock:
      fault.ends_transaction = true;
      return set(TMESH_E_TIMEOUT, "another program keeps the rows locked");
    case ER_DISK_FULL:
    case ER_RECORD_FILE_FULL:
      return set(TMESH_E_LIMIT, "the disk that holds the database is full");
    case ER_DUP_ENTRY:
    case ER_DUP_ENTRY_WITH_KEY_NAME:
    case ER_DUP_KEY:
      return set(TMESH_E_STATE, "a unique value is already taken");
    case ER_TABLE_EXISTS_ERROR:
    case ER_DUP_FIELDNAME:
    case ER_DUP_KEYNAME:
      return set(TMESH_E_STATE, "the table, column or index is already there");
    case ER_DATA_TOO_LONG:
    case ER_NET_PACKET_TOO_LARGE:
    case CR_NET_PACKET_TOO_LARGE:
      return set(TMESH_E_TOO_LARGE, "a value is too large for the database");
    case ER_BAD_NULL_ERROR:
    case ER_NO_DEFAULT_FOR_FIELD:
    case ER_TRUNCATED_WRONG_VALUE:
    case ER_TRUNCATED_WRONG_VALUE_FOR_FIELD:
    case ER_WARN_DATA_OUT_OF_RANGE:
    case ER_DATA_OUT_OF_RANGE:
    case WARN_DATA_TRUNCATED:
    case ER_ROW_IS_REFERENCED_2:
    case ER_NO_REFERENCED_ROW_2:
    case er_check_mysql:
    case er_check_mariadb:
      return set(TMESH_E_INVALID, "a value breaks a rule of the schema");
    case ER_OUTOFMEMORY:
    case ER_OUT_OF_SORTMEMORY:
    case ER_OUT_OF_RESOURCES:
    case CR_OUT_OF_MEMORY:
      return set(TMESH_E_NO_MEMORY, "no memory for the database");
    case ER_OPTION_PREVENTS_STATEMENT:
    case er_read_only_transaction:
    case er_read_only_mode:
      return set(TMESH_E_IO, "the database cannot be written");
    case ER_NO_SUCH_TABLE:
    case ER_BAD_FIELD_ERROR:
    case ER_PARSE_ERROR:
      return set(TMESH_E_IO, "the database lacks a table or column, or the statement is wrong");
    case ER_TABLEACCESS_DENIED_ERROR:
    case ER_COLUMNACCESS_DENIED_ERROR:
    case ER_DBACCESS_DENIED_ERROR:
    case ER_SPECIFIC_ACCESS_DENIED_ERROR:
      return set(TMESH_E_IO, "the database's user may not do this");
    default:
      if (says_no_space(message)) return set(TMESH_E_LIMIT, "the disk that holds the database is full");
      return set(TMESH_E_IO, "the database cannot be read or written");
  }
}

std::string mysql_connect_reason(unsigned number, std::string_view message) {
  switch (number) {
    case CR_CONNECTION_ERROR:
    case CR_CONN_HOST_ERROR:
    case CR_IPSOCK_ERROR:
      return "no database server answers there";
    case CR_UNKNOWN_HOST:
      return "the name of the host is not known";
    case CR_SERVER_LOST:
    case CR_SERVER_LOST_EXTENDED:
    case CR_SERVER_GONE_ERROR:
    case CR_SERVER_HANDSHAKE_ERR:
    case CR_VERSION_ERROR:
      return "what answers there does not speak as a database server, or not in time";
    case CR_SSL_CONNECTION_ERROR:
      return "TLS: " + std::string(message);
    case CR_AUTH_PLUGIN_CANNOT_LOAD:
    case cr_auth_plugin_error:
    case ER_NOT_SUPPORTED_AUTH_MODE:
      return "the server wants a kind of login that this program cannot do";
    case ER_ACCESS_DENIED_ERROR:
    case er_access_denied_no_password:
      return "user or password is not accepted";
    case ER_DBACCESS_DENIED_ERROR:
      return "the user may not use this database";
    case ER_BAD_DB_ERROR:
      return "there is no database of this name";
    case ER_CON_COUNT_ERROR:
    case ER_TOO_MANY_USER_CONNECTIONS:
      return "the server has too many connections";
    case ER_HOST_IS_BLOCKED:
    case ER_HOST_NOT_PRIVILEGED:
      return "the server accepts no connections from this machine";
    default:
      return "it cannot be opened (MySQL error " + std::to_string(number) + ")";
  }
}

}  // namespace tmesh::storage
