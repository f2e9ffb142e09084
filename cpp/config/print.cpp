#include "cpp/config/print.hpp"

#include <array>
#include <vector>

#include "cpp/base/json.hpp"
#include "cpp/base/parse.hpp"
#include "cpp/base/redact.hpp"

namespace tmesh::config {
namespace {

std::vector<std::string_view> parts_of(std::string_view path) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t dot = path.find('.');
    parts.push_back(path.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    path.remove_prefix(dot + 1);
  }
}

void write_value(json::Writer& w, const Key& key, const std::vector<std::string>& values) {
  if (key.type == Type::list) {
    w.begin_array();
    for (const std::string& value : values) w.string(value);
    w.end_array();
    return;
  }
  const std::string_view text = values.empty() ? std::string_view() : values.front();
  if (key.is_secret) {
    w.string(text.empty() ? text : kRedacted);
  } else if (key.type == Type::boolean) {
    w.boolean(parse_bool(text).value_or(false));
  } else if (key.type == Type::count || key.type == Type::bytes) {
    w.uinteger(number_of(key, text));
  } else if (key.type == Type::duration) {
    w.string(format_duration(number_of(key, text)));
  } else if (const std::size_t query = text.find('?'); key.hides_query && query != text.npos) {
    w.string(std::string(text.substr(0, query + 1)).append(kRedacted));
  } else {
    w.string(text);
  }
}

void write_with_origin(json::Writer& w, const Key& key, const std::vector<std::string>& values,
                       const Origin& origin, bool with_origins) {
  if (!with_origins) return write_value(w, key, values);
  w.begin_object().key("value");
  write_value(w, key, values);
  w.member("origin", origin.text()).end_object();
}

void write_elements(json::Writer& w, const Key& list, const Settings& settings, bool with_origins) {
  w.begin_array();
  for (const Element& element : settings.elements(list.path)) {
    w.begin_object();
    for (const Key& key : keys()) {
      if (!key.path.starts_with(list.path) || !key.path.substr(list.path.size()).starts_with("[].")) continue;
      const std::string_view name = key.path.substr(list.path.size() + 3);
      const std::vector<std::string> values = key.type == Type::list
                                                  ? element.list(name)
                                                  : std::vector<std::string>{std::string(element.text(name))};
      const Setting* setting = element.find(name);
      w.key(name);
      write_with_origin(w, key, values, setting == nullptr ? Origin{} : setting->origin, with_origins);
    }
    w.end_object();
  }
  w.end_array();
}

// One level of the nesting, while rows are walked in an order that keeps sections
// together.
class Printer {
 public:
  Printer(std::string& out, const Settings& settings, bool with_origins)
      : w_(out, json::Writer::Style::indented), settings_(settings), with_origins_(with_origins) {}

  void print(const std::vector<const Key*>& chosen) {
    w_.begin_object();
    section(chosen, 0, chosen.size(), 0);
    w_.end_object();
  }

 private:
  // Keys [first, last) share their first `depth` parts. Members appear in the order
  // of their first key.
  void section(const std::vector<const Key*>& all, std::size_t first, std::size_t last, std::size_t depth) {
    std::vector<std::string_view> done;
    for (std::size_t i = first; i < last; ++i) {
      const std::vector<std::string_view> parts = parts_of(all[i]->path);
      const std::string_view name = parts[depth];
      bool is_done = false;
      for (const std::string_view other : done) is_done = is_done || other == name;
      if (is_done) continue;
      done.push_back(name);
      w_.key(name);
      if (parts.size() == depth + 1) {
        value(*all[i]);
        continue;
      }
      std::vector<const Key*> inner;
      for (std::size_t j = i; j < last; ++j) {
        const std::vector<std::string_view> others = parts_of(all[j]->path);
        if (others.size() > depth + 1 && others[depth] == name) inner.push_back(all[j]);
      }
      w_.begin_object();
      section(inner, 0, inner.size(), depth + 1);
      w_.end_object();
    }
  }

  void value(const Key& key) {
    if (key.type == Type::objects) return write_elements(w_, key, settings_, with_origins_);
    const Setting& setting = settings_.at(key);
    write_with_origin(w_, key, setting.values, setting.origin, with_origins_);
  }

  json::Writer w_;
  const Settings& settings_;
  bool with_origins_;
};

std::string flags_text(const Key& key) {
  std::string out = "--" + std::string(key.path);
  for (std::string_view rest = key.flags; !rest.empty();) {
    const std::size_t bar = rest.find('|');
    out.append(", --").append(rest.substr(0, bar));
    rest = bar == std::string_view::npos ? std::string_view() : rest.substr(bar + 1);
  }
  return out;
}

std::string default_text(const Key& key) {
  return key.default_text.empty() ? "" : std::string(key.default_text);
}

// '|' separates cells.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

void append_row(std::string& out, const Key& key) {
  const std::string range = range_text(key);
  std::string type(key.type == Type::choice ? key.choices : ascii_lower(value_name(key)));
  if (key.type == Type::objects) type = "list of mappings";
  if (key.type == Type::tree) type = "mapping";
  if (key.type == Type::rate) type = "count in duration";
  if (key.type == Type::list) type = "list";
  std::string doc(key.doc);
  if (!range.empty()) doc += "; " + range;
  if (key.is_secret) doc += "; secret";
  if (key.is_live) doc += "; applied by a reload";
  if (key.effect != Effect::full) doc += "; **no effect in this version**";
  const std::string fallback = default_text(key);
  out += "| `" + std::string(key.path) + "` | " + cell(type) + " | " +
         (fallback.empty() ? "" : "`" + cell(fallback) + "`") + " | " +
         (key.is_settable() ? "`" + env_name(key.path) + "`" : "") + " | " + cell(doc) + " |\n";
}

}  // namespace

std::string print_config(const Settings& settings, Role role, bool with_origins) {
  std::vector<const Key*> chosen;
  for (const Key& key : keys()) {
    if (key.is_token || key.is_element() || key.type == Type::tree) continue;
    const bool is_own = (key.roles & role) != 0 && key.effect == Effect::full;
    if (is_own || settings.at(key).is_set()) chosen.push_back(&key);
  }
  std::string out;
  Printer(out, settings, with_origins).print(chosen);
  return out + "\n";
}

std::string dump_reference_markdown() {
  struct Part {
    const char* title;
    std::string_view prefix;  // of the paths; empty = everything that no other part has
  };
  constexpr std::array<Part, 4> parts = {{{"Deployment", ""},
                                          {"tunnelmesh-server", "server."},
                                          {"tunnelmesh-agent", "agent."},
                                          {"tunnelmesh-client", "client."}}};
  std::string out =
      "# Configuration keys\n\n"
      "Made from the key table by `tunnelmesh-server config-reference`; do not edit.\n\n"
      "A value comes from the command line (`--key.path value`), else from the environment, else from the\n"
      "file given with `--config` (YAML or JSON), else from the default. Durations are written as in Go\n"
      "(`100ms`, `5s`, `1m30s`), sizes in bytes or with KiB, MiB, GiB. Lists may be written as one text "
      "with\n"
      "commas. Every program accepts every key and uses its own.\n\n"
      "SIGHUP, and with `config_watch` a change of the files, loads everything anew. Keys marked \"applied "
      "by\n"
      "a reload\" change while the program runs; others that changed are named in the log and wait for a "
      "restart.\n\n"
      "Secrets stand best in files of their own (`..._file`) or in credentials of the service manager, "
      "which\n"
      "are read from the folder that systemd names in `CREDENTIALS_DIRECTORY`: they count more than the "
      "file\n"
      "and less than the environment.\n";
  for (const Part& part : parts) {
    out += std::string("\n## ") + part.title +
           "\n\n| key | type | default | environment | meaning |\n| --- | --- | --- | --- | --- |\n";
    for (const Key& key : keys()) {
      bool is_here = key.path.starts_with(part.prefix);
      if (part.prefix.empty()) {
        is_here = !key.path.starts_with("server.") && !key.path.starts_with("agent.") &&
                  !key.path.starts_with("client.");
      }
      if (is_here) append_row(out, key);
    }
  }
  return out;
}

std::string keys_help(Role role) {
  std::string out;
  for (const Key& key : keys()) {
    if ((key.roles & role) == 0 || !key.is_settable() || key.effect != Effect::full) continue;
    out += "  " + flags_text(key) + " " + std::string(value_name(key)) + "\n        " + std::string(key.doc);
    const std::string range = range_text(key);
    if (!range.empty()) out += ", " + range;
    if (!key.default_text.empty()) out += " (default " + std::string(key.default_text) + ")";
    out += "\n";
  }
  return out;
}

}  // namespace tmesh::config
