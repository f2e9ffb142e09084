#include "cpp/storage/sql_splitter.hpp"

namespace tmesh::storage {
namespace {

constexpr std::string_view space = " \t\r\n\f\v";

class Splitter {
 public:
  Splitter(std::string_view script, Driver driver) : script_(script), is_mysql_(driver == Driver::mysql) {}

  Result<std::vector<std::string_view>> run() {
    while (at_ < script_.size()) {
      if (!step())
        return fail(TMESH_E_INVALID, "a string, identifier or comment in the script is not closed");
    }
    finish();
    return std::move(statements_);
  }

 private:
  bool starts(std::string_view token) const { return script_.substr(at_).starts_with(token); }

  // Consumes one comment, quoted piece or character; false if something never ends.
  bool step() {
    const char c = script_[at_];
    if (starts("--") || (is_mysql_ && c == '#')) {
      const size_t end = script_.find('\n', at_);
      at_ = end == std::string_view::npos ? script_.size() : end;
      return true;
    }
    if (starts("/*")) {
      const size_t end = script_.find("*/", at_ + 2);
      if (end == std::string_view::npos) return false;
      at_ = end + 2;
      return true;
    }
    if (c == ';') {
      finish();
      start_ = ++at_;
      return true;
    }
    if (space.find(c) == std::string_view::npos) has_content_ = true;
    if (c == '\'' || c == '"') return quoted(c, is_mysql_);
    if (c == '`') return quoted('`', false);
    if (c == '[' && !is_mysql_) return quoted(']', false);
    ++at_;
    return true;
  }

  // From an opening quote past its closing one. A doubled quote is seen as two
  // pieces side by side, which cuts the same way.
  bool quoted(char closing, bool has_escapes) {
    for (++at_; at_ < script_.size(); ++at_) {
      if (has_escapes && script_[at_] == '\\') {
        ++at_;
      } else if (script_[at_] == closing) {
        ++at_;
        return true;
      }
    }
    return false;
  }

  void finish() {
    if (has_content_) {
      std::string_view piece = script_.substr(start_, at_ - start_);
      piece.remove_prefix(piece.find_first_not_of(space));
      piece.remove_suffix(piece.size() - 1 - piece.find_last_not_of(space));
      statements_.push_back(piece);
    }
    has_content_ = false;
  }

  std::string_view script_;
  bool is_mysql_;
  size_t at_ = 0;
  size_t start_ = 0;
  bool has_content_ = false;
  std::vector<std::string_view> statements_;
};

}  // namespace

Result<std::vector<std::string_view>> split_sql(std::string_view script, Driver driver) {
  return Splitter(script, driver).run();
}

}  // namespace tmesh::storage
