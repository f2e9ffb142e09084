#include "cpp/base/json.hpp"

#include <cjson/cJSON.h>

#include <cmath>
#include <cstdio>

#include "core/base/check.h"
#include "cpp/base/json_check.hpp"
#include "cpp/base/utf8.hpp"

namespace tmesh::json {
namespace {

constexpr double kExactMax = 9007199254740991.0;  // 2^53-1

}  // namespace

void Document::Free::operator()(cJSON* node) const {
  cJSON_Delete(node);
}

Result<Document> parse(std::string_view text, Limits limits) {
  if (text.size() > limits.size_bytes_max) return fail(TMESH_E_TOO_LARGE, "JSON is too large");
  const Result<void> checked = check_text(text, limits.depth_max);
  if (!checked) return std::unexpected<Error>(checked.error());
  Document document;
  document.node_.reset(cJSON_ParseWithLength(text.data(), text.size()));
  if (document.node_ == nullptr) return fail(TMESH_E_NO_MEMORY, "JSON does not fit into memory");
  return document;
}

bool Value::is_null() const {
  return cJSON_IsNull(node_) != 0;
}
bool Value::is_object() const {
  return cJSON_IsObject(node_) != 0;
}
bool Value::is_array() const {
  return cJSON_IsArray(node_) != 0;
}

std::optional<bool> Value::as_bool() const {
  if (cJSON_IsBool(node_) == 0) return std::nullopt;
  return cJSON_IsTrue(node_) != 0;
}

std::optional<std::string_view> Value::as_string() const {
  if (cJSON_IsString(node_) == 0) return std::nullopt;
  return node_->valuestring;
}

std::optional<int64_t> Value::as_int() const {
  if (cJSON_IsNumber(node_) == 0) return std::nullopt;
  const double number = node_->valuedouble;
  if (!(number >= -kExactMax && number <= kExactMax) || std::trunc(number) != number) return std::nullopt;
  return static_cast<int64_t>(number);
}

std::optional<double> Value::as_number() const {
  if (cJSON_IsNumber(node_) == 0) return std::nullopt;
  return node_->valuedouble;
}

Value Value::get(std::string_view key) const {
  if (!is_object()) return {};
  Value found;
  for (const Value member : *this) {
    if (member.key() == key) found = member;
  }
  return found;
}

std::string_view Value::key() const {
  return node_ == nullptr || node_->string == nullptr ? std::string_view() : node_->string;
}

std::size_t Value::size() const {
  std::size_t count = 0;
  for (Iterator it = begin(); it != end(); ++it) ++count;
  return count;
}

Value::Iterator Value::begin() const {
  return Iterator(is_object() || is_array() ? node_->child : nullptr);
}

Value::Iterator& Value::Iterator::operator++() {
  TMESH_ASSERT(node_ != nullptr);
  node_ = node_->next;
  return *this;
}

void append_quoted(std::string& out, std::string_view text) {
  out.push_back('"');
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_next(text, at);
    if (c.size_bytes == 0) {
      out += "\xEF\xBF\xBD";
      ++at;
      continue;
    }
    switch (c.code_point) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (c.code_point < 0x20 || (c.code_point >= 0x7F && c.code_point <= 0x9F)) {
          char escaped[8];
          std::snprintf(escaped, sizeof escaped, "\\u%04x", c.code_point);
          out += escaped;
        } else {
          out += text.substr(at, c.size_bytes);
        }
    }
    at += c.size_bytes;
  }
  out.push_back('"');
}

void Writer::new_line(std::size_t depth) {
  if (style_ == Style::compact) return;
  out_.push_back('\n');
  out_.append(depth * 2, ' ');
}

void Writer::before_value() {
  if (levels_.empty()) return;
  Level& level = levels_.back();
  TMESH_ASSERT(level.is_object == has_key_);
  if (!level.is_object) {
    if (level.has_items) out_.push_back(',');
    new_line(levels_.size());
  }
  level.has_items = true;
  has_key_ = false;
}

Writer& Writer::key(std::string_view name) {
  TMESH_ASSERT(!levels_.empty() && levels_.back().is_object && !has_key_);
  if (levels_.back().has_items) out_.push_back(',');
  new_line(levels_.size());
  append_quoted(out_, name);
  out_ += style_ == Style::compact ? ":" : ": ";
  has_key_ = true;
  return *this;
}

Writer& Writer::begin(char bracket, bool is_object) {
  before_value();
  out_.push_back(bracket);
  levels_.push_back({is_object, false});
  return *this;
}

Writer& Writer::end(char bracket, bool is_object) {
  TMESH_ASSERT(!levels_.empty() && levels_.back().is_object == is_object && !has_key_);
  const bool has_items = levels_.back().has_items;
  levels_.pop_back();
  if (has_items) new_line(levels_.size());
  out_.push_back(bracket);
  return *this;
}

Writer& Writer::string(std::string_view value) {
  before_value();
  append_quoted(out_, value);
  return *this;
}

Writer& Writer::integer(int64_t value) {
  return raw(std::to_string(value));
}
Writer& Writer::uinteger(uint64_t value) {
  return raw(std::to_string(value));
}
Writer& Writer::boolean(bool value) {
  return raw(value ? "true" : "false");
}
Writer& Writer::null() {
  return raw("null");
}

Writer& Writer::raw(std::string_view json) {
  before_value();
  out_ += json;
  return *this;
}

}  // namespace tmesh::json
