#include "cpp/config/file_source.hpp"

#include <utility>

#include "cpp/base/file.hpp"
#include "cpp/base/file_print.hpp"
#include "cpp/base/parse.hpp"
#include "cpp/base/redact.hpp"
#include "cpp/config/yaml.hpp"

namespace tmesh::config {
namespace {

// "client.tunnels[2].hosts[0]" -> "client.tunnels[].hosts[]"
std::string pattern_of(std::string_view path) {
  std::string out;
  bool is_inside = false;
  for (const char c : path) {
    if (c == ']') is_inside = false;
    if (!is_inside) out.push_back(c);
    if (c == '[') is_inside = true;
  }
  return out;
}

bool is_below(std::string_view path, std::string_view ancestor) {
  if (path.size() <= ancestor.size() || !path.starts_with(ancestor)) return false;
  return path[ancestor.size()] == '.' || path[ancestor.size()] == '[';
}

class FileSource {
 public:
  FileSource(const std::string& file, Role role, bool takes_tunnels, Settings& settings, Problems& problems)
      : file_(file), role_(role), takes_tunnels_(takes_tunnels), settings_(settings), problems_(problems) {}

  void apply(std::vector<YamlNode>& nodes) {
    for (YamlNode& node : nodes) {
      take(node);
      secure_wipe(node.value);
    }
    finish_list();
    for (auto& [key, setting] : aliases_) {
      if (!settings_.at(*key).is_set() && !settings_.at(*key).is_refused)
        settings_.at(*key) = std::move(setting);
    }
  }

 private:
  // A list whose items are being read.
  struct OpenList {
    const Key* key = nullptr;  // nullptr: there is none
    Setting* setting = nullptr;
    std::string path;
    Origin origin;
    std::vector<std::string> items;
    bool is_bad = false;
  };

  Origin origin(const YamlNode& node) const { return {Origin::Kind::file, file_, node.line}; }

  void refuse(const YamlNode& node, std::string message) {
    problems_.error(origin(node), node.path, std::move(message));
    skip_ = node.path;
  }

  void take(const YamlNode& node) {
    if (!skip_.empty() && is_below(node.path, skip_)) return;
    skip_.clear();
    if (open_list_.key != nullptr && take_item(node)) return;
    finish_list();
    if (node.path.empty()) {
      if (node.kind != YamlNode::Kind::mapping && node.kind != YamlNode::Kind::null) {
        problems_.error(origin(node), "", "must be a mapping of keys");
      }
      return;
    }
    const std::string pattern = pattern_of(node.path);
    if (const Key* key = find_key(pattern)) return take_key(node, *key);
    if (take_tree_content(node, pattern) || take_element(node, pattern) || take_alias(node, pattern)) return;
    if (is_section(pattern)) {
      const bool is_fine = node.kind == YamlNode::Kind::mapping || node.kind == YamlNode::Kind::null;
      if (!is_fine) refuse(node, "must be a mapping of keys");
      return;
    }
    // A look for the nearest key takes long; nobody reads it beyond what is listed.
    refuse(node, with_proposal("unknown key", problems_.is_full() ? "" : nearest_key(pattern, role_)));
  }

  void take_key(const YamlNode& node, const Key& key) {
    if (node.kind == YamlNode::Kind::null) return;  // as if it were not there
    Setting* setting = key.is_element() ? element_field(key) : &settings_.at(key);
    if (setting == nullptr) return;  // of an element that was refused
    const char* wrong_kind = wrong_kind_reason(key, node.kind);
    if (wrong_kind != nullptr) {
      setting->is_refused = true;
      refuse(node, wrong_kind);
      return;
    }
    if (key.type == Type::tree) {
      tree_origin_ = origin(node);
    } else if (key.type == Type::objects) {
      setting->origin = origin(node);
    } else if (node.kind == YamlNode::Kind::sequence) {
      open_list_ = OpenList{&key, setting, node.path, origin(node), {}};
    } else {
      std::vector<std::string> texts =
          key.type == Type::list ? split_list(node.value) : std::vector<std::string>{node.value};
      store(*setting, key, std::move(texts), origin(node), problems_, node.path);
    }
  }

  static const char* wrong_kind_reason(const Key& key, YamlNode::Kind kind) {
    switch (key.type) {
      case Type::tree:
        return kind == YamlNode::Kind::mapping ? nullptr : "must be a mapping of keys";
      case Type::objects:
        return kind == YamlNode::Kind::sequence ? nullptr : "must be a list of mappings";
      case Type::list:
        return kind == YamlNode::Kind::mapping ? "must be a list" : nullptr;
      default:
        return kind == YamlNode::Kind::scalar ? nullptr : "must be a single value";
    }
  }

  // Whether the node belonged to the open list.
  bool take_item(const YamlNode& node) {
    if (!is_below(node.path, open_list_.path)) return false;
    if (node.kind != YamlNode::Kind::scalar) {
      open_list_.is_bad = true;
      refuse(node, "must be a single value");
      return true;
    }
    const std::string message = check_value(*open_list_.key, node.value);
    if (message.empty()) {
      open_list_.items.push_back(node.value);
    } else {
      open_list_.is_bad = true;
      problems_.error(origin(node), node.path, message);
    }
    return true;
  }

  void finish_list() {
    if (open_list_.key == nullptr) return;
    OpenList list = std::exchange(open_list_, OpenList{});
    if (list.is_bad) {
      list.setting->is_refused = true;
      return;
    }
    list.setting->origin = std::move(list.origin);
    list.setting->values = std::move(list.items);
  }

  // Keys below a tree are not looked at, but for the switch of the whole feature; those
  // that have rows of their own do not get here.
  bool take_tree_content(const YamlNode& node, const std::string& pattern) {
    for (std::size_t dot = pattern.find('.'); dot != std::string::npos; dot = pattern.find('.', dot + 1)) {
      const Key* key = find_key(std::string_view(pattern).substr(0, dot));
      if (key == nullptr || key->type != Type::tree) continue;
      if (is_section(pattern)) return false;  // there are rows below it
      if (Setting& tree = settings_.at(*key); !tree.is_set()) tree.origin = tree_origin_;
      const bool is_switch = std::string_view(pattern).substr(dot) == ".enabled";
      if (is_switch && (key->roles & role_) != 0 && parse_bool(node.value).value_or(false)) {
        problems_.error(origin(node), node.path, "is not available in this version");
      }
      return true;
    }
    return false;
  }

  bool take_element(const YamlNode& node, const std::string& pattern) {
    if (!pattern.ends_with("[]")) return false;
    const Key* key = find_key(std::string_view(pattern).substr(0, pattern.size() - 2));
    if (key == nullptr || key->type != Type::objects) return false;
    element_ = nullptr;
    if (node.kind != YamlNode::Kind::mapping) {
      refuse(node, "must be a mapping");
      return true;
    }
    dropped_ = Element{};
    Element element{origin(node), node.path, {}};
    if (!takes_tunnels_ && key->path == "client.tunnels") {
      dropped_ = std::move(element);
      element_ = &dropped_;
    } else {
      element_ = &settings_.elements(key->path).emplace_back(std::move(element));
    }
    return true;
  }

  Setting* element_field(const Key& key) {
    if (element_ == nullptr) return nullptr;
    return &element_->fields.emplace_back(Element::Field{&key, {}}).setting;
  }

  bool take_alias(const YamlNode& node, const std::string& pattern) {
    for (const Key& key : keys()) {
      if (key.file_alias.empty() || key.file_alias != pattern) continue;
      if (node.kind != YamlNode::Kind::scalar) {
        refuse(node, "must be a single value");
        return true;
      }
      Setting setting;
      store(setting, key, {node.value}, origin(node), problems_, node.path);
      aliases_.emplace_back(&key, std::move(setting));
      return true;
    }
    return false;
  }

  const std::string& file_;
  Role role_;
  bool takes_tunnels_;
  Settings& settings_;
  Problems& problems_;
  std::string skip_;  // what lies below was spoken about already
  OpenList open_list_;
  Origin tree_origin_;  // where the tree begins that is being read
  Element* element_ = nullptr;
  Element dropped_;
  std::vector<std::pair<const Key*, Setting>> aliases_;
};

}  // namespace

void store(Setting& setting, const Key& key, std::vector<std::string> texts, Origin origin,
           Problems& problems, std::string_view shown_path) {
  for (const std::string& text : texts) {
    std::string message = check_value(key, text);
    if (message.empty()) continue;
    problems.error(std::move(origin), shown_path, std::move(message));
    setting.is_refused = true;
    return;
  }
  setting.origin = std::move(origin);
  setting.values = std::move(texts);
}

uint64_t apply_file(const Source& source, Role role, Settings& settings, Problems& problems) {
  const std::string& file = source.file;
  const Origin where{Origin::Kind::file, file, 0};
  if (ascii_lower(file).ends_with(".toml")) {
    problems.error(where, "", "TOML is not supported; use YAML or JSON");
    return kNoPrint;
  }
  Result<std::string> text = read_file(file, kFileBytesMax, pipes(source));
  if (!text) {
    const bool is_large = text.error().code == TMESH_E_TOO_LARGE;
    problems.error(
        where, "",
        is_large ? std::string("is larger than 1 MiB") : std::string("cannot be read: ") + text.error().text);
    return kNoPrint;
  }
  const uint64_t print = print_of(*text);
  std::vector<YamlNode> nodes = read_yaml(*text, file, problems);
  secure_wipe(*text);
  FileSource(file, role, source.tunnel.empty(), settings, problems).apply(nodes);
  return print;
}

}  // namespace tmesh::config
