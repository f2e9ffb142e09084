#include "cpp/storage/open.hpp"

#include <algorithm>

#include "cpp/storage/mysql_db.hpp"
#include "cpp/storage/sqlite_db.hpp"

namespace tmesh::storage {
namespace {

Opened<std::unique_ptr<Db>> open_configured_mysql(const DatabaseSettings& settings,
                                                  const OpenOptions& options) {
  Opened<MysqlDsn> dsn = parse_mysql_dsn(settings.mysql_dsn.reveal());
  if (!dsn) return std::unexpected(dsn.error());
  MysqlOptions mysql;
  mysql.dsn = std::move(*dsn);
  mysql.is_tls = settings.is_mysql_tls;
  mysql.ca_file = settings.mysql_ca_file;
  mysql.cert_file = settings.mysql_cert_file;
  mysql.key_file = settings.mysql_key_file;
  mysql.lock_wait_s = std::max(1, (options.lock_wait_ms + 999) / 1000);
  if (options.answer_wait_ms > 0) {
    const int wait_s = std::max(2, (options.answer_wait_ms + 999) / 1000);
    for (int* of_dsn : {&mysql.dsn.connect_timeout_s, &mysql.dsn.read_timeout_s, &mysql.dsn.write_timeout_s})
      *of_dsn = std::min(*of_dsn, wait_s);
  }
  return open_mysql(std::move(mysql));
}

}  // namespace

Opened<std::unique_ptr<Db>> open_database(const DatabaseSettings& settings, const OpenOptions& options) {
  if (settings.driver == Driver::mysql) return open_configured_mysql(settings, options);
  return open_sqlite({.path = settings.sqlite_path,
                      .create = options.create,
                      .busy_timeout_ms = options.lock_wait_ms,
                      .is_read_only = options.is_read_only});
}

}  // namespace tmesh::storage
