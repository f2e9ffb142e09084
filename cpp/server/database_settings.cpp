#include "cpp/server/database_settings.hpp"

namespace tmesh::server {

storage::DatabaseSettings database_settings(const config::StorageSettings& settings) {
  storage::DatabaseSettings database;
  database.driver = settings.driver == config::StorageSettings::Driver::mysql ? storage::Driver::mysql
                                                                              : storage::Driver::sqlite;
  database.sqlite_path = settings.sqlite_path;
  database.mysql_dsn = settings.mysql_dsn;
  database.is_mysql_tls = settings.is_mysql_tls;
  database.mysql_ca_file = settings.mysql_ca_file;
  database.mysql_cert_file = settings.mysql_cert_file;
  database.mysql_key_file = settings.mysql_key_file;
  return database;
}

}  // namespace tmesh::server
