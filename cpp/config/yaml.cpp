#include "cpp/config/yaml.hpp"

#include <yaml.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "cpp/base/parse.hpp"
#include "cpp/base/redact.hpp"

namespace tmesh::config {
namespace {

// One event; freed on every way out.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() {
    if (is_filled_) yaml_event_delete(&event_);
  }
  bool parse(yaml_parser_t* parser) {
    is_filled_ = yaml_parser_parse(parser, &event_) != 0;
    return is_filled_;
  }
  const yaml_event_t& operator*() const { return event_; }
  const yaml_event_t* operator->() const { return &event_; }

 private:
  yaml_event_t event_ = {};
  bool is_filled_ = false;
};

std::string_view text_of(const yaml_char_t* text) {
  return text == nullptr ? std::string_view() : reinterpret_cast<const char*>(text);
}

bool is_null_text(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

bool is_standard_tag(std::string_view tag) {
  constexpr std::string_view prefix = "tag:yaml.org,2002:";
  if (tag.empty() || tag == "!") return true;
  if (!tag.starts_with(prefix)) return false;
  tag.remove_prefix(prefix.size());
  for (const std::string_view name : {"str", "int", "bool", "float", "null", "map", "seq"}) {
    if (tag == name) return true;
  }
  return false;
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& file, Problems& problems)
      : text_(text), file_(file), problems_(problems) {
    yaml_parser_initialize(&parser_);
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { yaml_parser_delete(&parser_); }

  std::vector<YamlNode> run() {
    std::size_t documents = 0;
    while (true) {
      Event event;
      if (!event.parse(&parser_)) {
        syntax_error();
        break;
      }
      if (event->type == YAML_STREAM_END_EVENT) break;
      if (event->type == YAML_DOCUMENT_START_EVENT && ++documents == 2) {
        problem(line_of(event->start_mark), "only one document is read");
        break;
      }
      if (!handle(*event)) break;
    }
    return std::move(nodes_);
  }

 private:
  struct Level {
    bool is_mapping = false;
    std::string path;
    std::optional<std::string> key;           // mapping: read, its value not yet
    std::size_t key_line = 0;                 // 0: the key was refused
    std::size_t item_count = 0;               // sequence
    std::map<std::string, std::size_t> keys;  // with their lines
  };

  static std::size_t line_of(const yaml_mark_t& mark) { return mark.line + 1; }

  void problem(std::size_t line, std::string message) {
    problems_.error({Origin::Kind::file, file_, line}, "", std::move(message));
  }
  void problem(std::size_t line, std::string_view path, std::string message) {
    problems_.error({Origin::Kind::file, file_, line}, path, std::move(message));
  }

  // False ends the reading.
  bool handle(const yaml_event_t& event) {
    const std::size_t line = line_of(event.start_mark);
    if (problems_.is_full()) return false;
    switch (event.type) {
      case YAML_SCALAR_EVENT:
        return scalar(event, line);
      case YAML_ALIAS_EVENT:
        problem(line, "aliases (*name) are not supported; write the value out");
        if (skip_depth_ > 0) return true;
        if (expects_key()) {
          drop_next_value();
        } else {
          finish_value();
        }
        return true;
      case YAML_MAPPING_START_EVENT:
      case YAML_SEQUENCE_START_EVENT:
        return open(event, line);
      case YAML_MAPPING_END_EVENT:
      case YAML_SEQUENCE_END_EVENT:
        close();
        return true;
      default:
        return true;
    }
  }

  bool scalar(const yaml_event_t& event, std::size_t line) {
    const std::string_view value(reinterpret_cast<const char*>(event.data.scalar.value),
                                 event.data.scalar.length);
    if (skip_depth_ > 0) return true;
    if (expects_key()) {
      take_key(value, line);
      return true;
    }
    if (is_dropped()) {
      finish_value();
      return true;
    }
    if (!is_standard_tag(text_of(event.data.scalar.tag))) problem(line, "tags (!name) are not supported");
    const bool is_plain = event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (value.find('\0') != std::string_view::npos) {
      problem(line, "a value holds a NUL character");
      finish_value();
      return true;
    }
    return add(is_plain && is_null_text(value) ? YamlNode::Kind::null : YamlNode::Kind::scalar, value, line);
  }

  bool open(const yaml_event_t& event, std::size_t line) {
    const bool is_mapping = event.type == YAML_MAPPING_START_EVENT;
    // Also inside something refused: the library's time grows with the square of the depth.
    if (levels_.size() + skip_depth_ >= kYamlDepthMax) {
      problem(line, "is nested too deeply");
      return false;
    }
    if (skip_depth_ > 0) {
      ++skip_depth_;
      return true;
    }
    if (expects_key()) {
      problem(line, "a key must be plain text");
      drop_next_value();
      skip_depth_ = 1;
      skips_key_ = true;
      return true;
    }
    if (is_dropped()) {
      skip_depth_ = 1;
      return true;
    }
    const yaml_char_t* tag = is_mapping ? event.data.mapping_start.tag : event.data.sequence_start.tag;
    if (!is_standard_tag(text_of(tag))) problem(line, "tags (!name) are not supported");
    std::string path = value_path();
    if (!add(is_mapping ? YamlNode::Kind::mapping : YamlNode::Kind::sequence, "", line, false)) return false;
    levels_.push_back({.is_mapping = is_mapping, .path = std::move(path)});
    return true;
  }

  void close() {
    if (skip_depth_ > 0) {
      --skip_depth_;
      if (skip_depth_ == 0 && !std::exchange(skips_key_, false)) finish_value();
      return;
    }
    levels_.pop_back();
    finish_value();
  }

  bool expects_key() const { return !levels_.empty() && levels_.back().is_mapping && !levels_.back().key; }

  void take_key(std::string_view raw, std::size_t line) {
    Level& level = levels_.back();
    std::string key = ascii_lower(raw);
    drop_next_value();
    if (key.empty() || key.size() > kYamlKeyBytesMax || has_space_or_control(key) ||
        key.find('[') != std::string::npos) {
      problem(line, level.path, "has a key that is empty, too long, or has white space in it");
      return;
    }
    const std::string path = level.path.empty() ? key : level.path + "." + key;
    const auto [before, is_new] = level.keys.emplace(key, line);
    if (!is_new) {
      problem(line, path, "is set twice; the first is on line " + std::to_string(before->second));
      return;
    }
    level.key = std::move(key);
    level.key_line = line;
  }

  // The key of the value that comes next was refused.
  void drop_next_value() {
    levels_.back().key = "";
    levels_.back().key_line = 0;
  }
  bool is_dropped() const {
    return !levels_.empty() && levels_.back().is_mapping && levels_.back().key_line == 0;
  }

  std::string value_path() const {
    if (levels_.empty()) return "";
    const Level& level = levels_.back();
    if (!level.is_mapping) return level.path + "[" + std::to_string(level.item_count) + "]";
    return level.path.empty() ? level.key.value_or("") : level.path + "." + level.key.value_or("");
  }

  bool add(YamlNode::Kind kind, std::string_view value, std::size_t line, bool is_complete = true) {
    if (nodes_.size() >= kYamlNodesMax) {
      problem(line, "has too many values");
      return false;
    }
    const bool has_key = !levels_.empty() && levels_.back().is_mapping;
    nodes_.push_back({value_path(), kind, std::string(value), has_key ? levels_.back().key_line : line});
    if (is_complete) finish_value();
    return true;
  }

  // A value (or a container) is complete: the level above waits for the next.
  void finish_value() {
    if (levels_.empty()) return;
    Level& level = levels_.back();
    if (level.is_mapping) {
      level.key.reset();
    } else {
      ++level.item_count;
    }
  }

  void syntax_error() {
    if (parser_.error == YAML_MEMORY_ERROR) {
      problem(0, "does not fit into memory");
      return;
    }
    if (parser_.error == YAML_READER_ERROR) {
      const std::size_t end = std::min(parser_.problem_offset, text_.size());
      const auto lines = std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(end), '\n');
      problem(static_cast<std::size_t>(lines) + 1, "is not valid UTF-8, or has control characters");
      return;
    }
    // The parser's texts are fixed phrases; none repeats the input.
    const std::string phrase(parser_.problem == nullptr ? "cannot be understood" : parser_.problem);
    problem(line_of(parser_.problem_mark), "syntax: " + phrase);
  }

  std::string_view text_;
  const std::string& file_;
  Problems& problems_;
  yaml_parser_t parser_ = {};
  std::vector<Level> levels_;
  std::vector<YamlNode> nodes_;
  std::size_t skip_depth_ = 0;  // open containers inside something refused
  bool skips_key_ = false;      // that something stands in the place of a key
};

// A tab in the indentation is the most frequent mistake and has the least helpful
// message in the library. In JSON tabs are fine.
bool check_tabs(std::string_view text, const std::string& file, Problems& problems) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] == '{' || text[first] == '[') return true;
  bool is_clean = true;
  std::size_t line = 1;
  for (std::size_t at = 0; at < text.size() && !problems.is_full(); ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view row = text.substr(at, end - at);
    // An indentation of tabs alone ("\t" on an empty line) fails in the library, too.
    const std::string_view indent = row.substr(0, row.find_first_not_of(" \t\r"));
    if (indent.find('\t') != std::string_view::npos) {
      problems.error({Origin::Kind::file, file, line}, "", "has a tab in the indentation; use spaces");
      is_clean = false;
    }
    at = end + 1;
  }
  return is_clean;
}

}  // namespace

std::vector<YamlNode> read_yaml(std::string_view text, const std::string& file, Problems& problems) {
  if (text.size() > kFileBytesMax) {
    problems.error({Origin::Kind::file, file, 0}, "", "is larger than 1 MiB");
    return {};
  }
  // With tabs the parser's own message would only repeat the problem in worse words.
  if (!check_tabs(text, file, problems)) return {};
  return Reader(text, file, problems).run();
}

}  // namespace tmesh::config
