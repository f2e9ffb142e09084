#include "cpp/storage/mysql_statement.hpp"

#include <errmsg.h>

#include <algorithm>
#include <charconv>
#include <type_traits>

#include "core/base/check.h"

namespace tmesh::storage {
namespace {

// my_bool in one library, bool in the other.
using Flag = std::remove_pointer_t<decltype(MYSQL_BIND::is_null)>;

// The library tells the longest value of a column; a number's text needs no more than this.
constexpr unsigned long number_bytes_max = 32;

struct Column {
  std::vector<char> buffer;
  unsigned long size_bytes = 0;
  Flag is_null = 0;
  bool is_integer = false;
};

// Sums and large literals come as decimals; SQLite's would be integers.
bool is_integer(const MYSQL_FIELD& field) {
  switch (field.type) {
    case MYSQL_TYPE_TINY:
    case MYSQL_TYPE_SHORT:
    case MYSQL_TYPE_INT24:
    case MYSQL_TYPE_LONG:
    case MYSQL_TYPE_LONGLONG:
      return true;
    case MYSQL_TYPE_DECIMAL:
    case MYSQL_TYPE_NEWDECIMAL:
      return field.decimals == 0;
    default:
      return false;
  }
}

class MysqlRow final : public Row {
 public:
  explicit MysqlRow(const std::vector<Column>& columns) : columns_(columns) {}
  bool is_null(int column) const override { return at(column).is_null != 0; }
  std::string_view text(int column) const override {
    const Column& value = at(column);
    if (value.is_null != 0) return {};
    return {value.buffer.data(), value.size_bytes};
  }
  std::optional<int64_t> integer(int column) const override {
    const std::string_view digits = text(column);
    if (!at(column).is_integer || digits.empty()) return std::nullopt;
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(digits.begin(), digits.end(), value);
    if (error != std::errc() || stop != digits.end()) return std::nullopt;
    return value;
  }

 private:
  const Column& at(int column) const { return columns_.at(static_cast<size_t>(column)); }
  const std::vector<Column>& columns_;
};

}  // namespace

MysqlFault MysqlStatement::fault() const {
  return mysql_fault(mysql_stmt_errno(statement_.get()), mysql_stmt_error(statement_.get()));
}

MysqlStatement::Done<MysqlStatement> MysqlStatement::prepare(MYSQL* mysql, std::string_view sql) {
  MysqlStatement made(mysql_stmt_init(mysql));
  if (!made.statement_) return std::unexpected(mysql_fault(CR_OUT_OF_MEMORY, {}));
  const Flag tells_longest = 1;
  mysql_stmt_attr_set(made.statement_.get(), STMT_ATTR_UPDATE_MAX_LENGTH, &tells_longest);
  if (mysql_stmt_prepare(made.statement_.get(), sql.data(), sql.size()) != 0) {
    return std::unexpected(made.fault());
  }
  return made;
}

MysqlStatement::Done<uint64_t> MysqlStatement::execute(Params params) {
  MYSQL_STMT* statement = statement_.get();
  TMESH_ASSERT(mysql_stmt_param_count(statement) == params.size());
  std::vector<MYSQL_BIND> binds(params.size());
  std::vector<int64_t> integers(params.size());
  std::vector<unsigned long> sizes(params.size());
  for (size_t i = 0; i < params.size(); ++i) {
    const Param& param = params[i];
    MYSQL_BIND& bind = binds[i];
    switch (param.kind()) {
      case Param::Kind::null:
        bind.buffer_type = MYSQL_TYPE_NULL;
        break;
      case Param::Kind::integer:
        integers[i] = param.integer();
        bind.buffer_type = MYSQL_TYPE_LONGLONG;
        bind.buffer = &integers[i];
        break;
      case Param::Kind::text:
        sizes[i] = param.text().size();
        bind.buffer_type = MYSQL_TYPE_STRING;
        bind.buffer = const_cast<char*>(param.text().empty() ? "" : param.text().data());
        bind.buffer_length = sizes[i];
        bind.length = &sizes[i];
        break;
    }
  }
  if (!binds.empty() && mysql_stmt_bind_param(statement, binds.data()) != 0) return std::unexpected(fault());
  if (mysql_stmt_execute(statement) != 0) return std::unexpected(fault());
  if (mysql_stmt_field_count(statement) == 0) return mysql_stmt_affected_rows(statement);
  if (mysql_stmt_store_result(statement) != 0) {
    MysqlFault lost = fault();
    lost.never_ran = false;
    return std::unexpected(lost);
  }
  return uint64_t{0};
}

MysqlStatement::Done<void> MysqlStatement::each_row(Delegate<bool(const Row&)> on_row) {
  MYSQL_STMT* statement = statement_.get();
  MYSQL_RES* about = mysql_stmt_result_metadata(statement);
  if (about == nullptr) return {};  // a statement without rows
  const MYSQL_FIELD* fields = mysql_fetch_fields(about);
  std::vector<Column> columns(mysql_num_fields(about));
  std::vector<MYSQL_BIND> binds(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    Column& column = columns[i];
    column.buffer.resize(std::max(fields[i].max_length, number_bytes_max));
    column.is_integer = is_integer(fields[i]);
    binds[i].buffer_type = MYSQL_TYPE_STRING;
    binds[i].buffer = column.buffer.data();
    binds[i].buffer_length = column.buffer.size();
    binds[i].length = &column.size_bytes;
    binds[i].is_null = &column.is_null;
  }
  mysql_free_result(about);
  if (mysql_stmt_bind_result(statement, binds.data()) != 0) return std::unexpected(fault());
  const MysqlRow row(columns);
  int rc = mysql_stmt_fetch(statement);
  while (rc == 0 && on_row(row)) rc = mysql_stmt_fetch(statement);
  if (rc == 1) return std::unexpected(fault());
  // A value longer than the longest: the library contradicts itself.
  if (rc == MYSQL_DATA_TRUNCATED) return std::unexpected(mysql_fault(CR_MALFORMED_PACKET, {}));
  return {};
}

void MysqlStatement::release() {
  mysql_stmt_free_result(statement_.get());
}

}  // namespace tmesh::storage
