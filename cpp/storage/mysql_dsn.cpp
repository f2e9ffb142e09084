#include "cpp/storage/mysql_dsn.hpp"

#include <algorithm>
#include <array>

#include "cpp/base/address.hpp"
#include "cpp/base/parse.hpp"
#include "cpp/base/utf8.hpp"

namespace tmesh::storage {
namespace {

constexpr size_t database_chars_max = 64;  // MySQL's limit of an identifier
constexpr size_t socket_path_max = 107;    // sockaddr_un
constexpr uint64_t us_per_s = 1'000'000;

constexpr std::string_view without_effect[] = {
    "allowAllFiles", "allowCleartextPasswords", "allowFallbackToPlaintext", "allowNativePasswords",
    "allowOldPasswords", "checkConnLiveness", "clientFoundRows", "collation", "columnsWithAlias", "compress",
    "connectionAttributes", "interpolateParams", "loc", "maxAllowedPacket", "multiStatements", "parseTime",
    "rejectReadOnly", "serverPubKey", "timeTruncate",
    // Session variables that we set ourselves, or that do not touch what we do.
    "autocommit", "innodb_lock_wait_timeout", "lock_wait_timeout", "sql_mode", "time_zone",
    "transaction_isolation", "tx_isolation", "wait_timeout"};

std::unexpected<Problem> bad(std::string_view text) {
  return std::unexpected(Problem{TMESH_E_INVALID, "storage.mysql.dsn: " + std::string(text)});
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// %41 to A, and in parameters + to a space. False: a broken escape.
bool unescape(std::string_view text, bool plus_is_space, std::string& out) {
  out.clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += plus_is_space && text[i] == '+' ? ' ' : text[i];
      continue;
    }
    if (i + 2 >= text.size()) return false;
    const int high = hex_value(text[i + 1]);
    const int low = hex_value(text[i + 2]);
    if (high < 0 || low < 0) return false;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return true;
}

Opened<void> set_tcp(MysqlDsn& dsn, std::string_view address) {
  std::string text(address.empty() ? "127.0.0.1" : address);
  const bool has_port =
      text.front() == '[' ? text.find("]:") != std::string::npos : text.find(':') != std::string::npos;
  if (!has_port) text += ':' + std::to_string(MysqlDsn::port_default);
  Result<HostPort> parsed = parse_host_port(text);
  if (!parsed || parsed->host.empty() || parsed->port == 0) {
    return bad("the address in tcp(...) must be host, host:port or [IPv6 address]:port");
  }
  dsn.host = std::move(parsed->host);
  dsn.port = parsed->port;
  return {};
}

Opened<void> set_unix(MysqlDsn& dsn, std::string_view path) {
  if (path.empty()) path = "/tmp/mysql.sock";
  if (path.front() != '/' || path.size() > socket_path_max || has_space_or_control(path)) {
    return bad("the path in unix(...) must be an absolute path of a socket");
  }
  dsn.socket_path = path;
  return {};
}

// "tcp(host:port)" and the like, behind the last '@'.
Opened<void> set_address(MysqlDsn& dsn, std::string_view text) {
  std::string_view address;
  const size_t open = text.find('(');
  if (open != std::string_view::npos) {
    if (text.back() != ')') return bad("the address is not closed by ')' before '/'");
    address = text.substr(open + 1, text.size() - open - 2);
    text = text.substr(0, open);
  }
  if (text.empty() || text == "tcp") return set_tcp(dsn, address);
  if (text == "unix") return set_unix(dsn, address);
  return bad("the protocol must be tcp or unix: user:password@tcp(host:port)/database");
}

Opened<void> set_account(MysqlDsn& dsn, std::string_view text) {
  const size_t colon = text.find(':');
  dsn.user = text.substr(0, colon);
  if (dsn.user.empty()) return bad("there is no user name before '@'");
  if (!utf8_valid(text) || text.find('\0') != std::string_view::npos) {
    return bad("user name and password must be UTF-8 without NUL");
  }
  if (colon != std::string_view::npos) dsn.password = Secret(text.substr(colon + 1));
  return {};
}

Opened<void> set_database(MysqlDsn& dsn, std::string_view text) {
  if (!unescape(text, false, dsn.database)) return bad("the database name has a broken %-escape");
  const bool is_good = !dsn.database.empty() && dsn.database.size() <= database_chars_max * 4 &&
                       utf8_valid(dsn.database) && !has_space_or_control(dsn.database) &&
                       dsn.database.find('/') == std::string::npos;
  if (!is_good) return bad("there must be the name of a database behind '/'");
  return {};
}

Opened<void> set_timeout(int& seconds, int least_s, std::string_view name, std::string_view value) {
  const Result<uint64_t> us = parse_duration_us(value);
  if (!us) return bad(std::string(name) + " must be a duration such as 5s");
  if (*us == 0) return {};
  const uint64_t rounded = (*us - 1) / us_per_s + 1;
  seconds = std::clamp(static_cast<int>(std::min<uint64_t>(rounded, MysqlDsn::timeout_max_s)), least_s,
                       MysqlDsn::timeout_max_s);
  return {};
}

// A list such as "utf8mb4,utf8", of which another driver takes the first the server knows. We
// always speak utf8mb4, which holds whatever the three could.
bool is_unicode(std::string_view list) {
  for (const std::string_view known : {"utf8mb4", "utf8", "utf8mb3"}) {
    if (list.substr(0, list.find(',')) == known) return true;
  }
  return false;
}

Opened<void> set_parameter(MysqlDsn& dsn, std::string_view name, std::string_view escaped) {
  std::string value;
  if (!unescape(escaped, true, value)) return bad("the value of a parameter has a broken %-escape");
  if (name == "timeout") return set_timeout(dsn.connect_timeout_s, 1, name, value);
  if (name == "readTimeout") return set_timeout(dsn.read_timeout_s, 2, name, value);
  if (name == "writeTimeout") return set_timeout(dsn.write_timeout_s, 1, name, value);
  if (name == "tls") {
    if (value.empty()) return bad("tls must be true, false, skip-verify, preferred or the name of a profile");
    const Result<bool> is_on = parse_bool(value);
    dsn.asks_for_tls = !is_on || *is_on;
    return {};
  }
  if (name == "charset") {
    if (!is_unicode(value)) return bad("charset must be utf8mb4");
    return {};
  }
  if (std::ranges::find(without_effect, name) != std::end(without_effect)) return {};
  // Its name stays unsaid: in a DSN without '/' it may be a piece of the password.
  return bad("it has a parameter that this program does not know");
}

Opened<void> set_parameters(MysqlDsn& dsn, std::string_view text) {
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos) return bad("a parameter has no value");
    if (Opened<void> set = set_parameter(dsn, pair.substr(0, equals), pair.substr(equals + 1)); !set) {
      return set;
    }
  }
  return {};
}

}  // namespace

std::string MysqlDsn::where() const {
  if (host.empty()) return socket_path + '/' + database;
  return format_host_port(host, port) + '/' + database;
}

Opened<MysqlDsn> parse_mysql_dsn(std::string_view text) {
  MysqlDsn dsn;
  if (text.empty()) return bad("is empty");
  // User and password may hold anything, so what follows them is found from the right.
  const size_t slash = text.rfind('/');
  if (slash == std::string_view::npos) return bad("there is no '/' before the name of the database");
  const std::string_view left = text.substr(0, slash);
  const std::string_view right = text.substr(slash + 1);
  // An '@' here means that the last '/' belongs to the password.
  if (right.find('@') != std::string_view::npos) {
    return bad(
        "there is no '/' before the name of the database (a '/' or '@' in a parameter is written "
        "%2F or %40)");
  }
  const size_t at = left.rfind('@');
  if (at == std::string_view::npos) return bad("there is no user: user:password@tcp(host:port)/database");
  if (Opened<void> set = set_account(dsn, left.substr(0, at)); !set) return std::unexpected(set.error());
  if (Opened<void> set = set_address(dsn, left.substr(at + 1)); !set) return std::unexpected(set.error());
  const size_t question = right.find('?');
  if (Opened<void> set = set_database(dsn, right.substr(0, question)); !set) {
    return std::unexpected(set.error());
  }
  if (question == std::string_view::npos) return dsn;
  if (Opened<void> set = set_parameters(dsn, right.substr(question + 1)); !set) {
    return std::unexpected(set.error());
  }
  return dsn;
}

}  // namespace tmesh::storage
