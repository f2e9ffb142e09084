#include "cmd/cli.hpp"
#include "cpp/config/print.hpp"

namespace tmesh::cli {
namespace {

void append_entry(std::string& out, const std::string& left, const std::string& right) {
  constexpr std::size_t column = 28;
  out += "  " + left;
  if (left.size() + 2 < column) {
    out.append(column - left.size() - 2, ' ');
  } else {
    out += "\n" + std::string(column, ' ');
  }
  out += right + "\n";
}

void append_flag(std::string& out, const Flag& flag) {
  std::string left = "--" + flag.name;
  if (!flag.value_name.empty()) left += " " + (flag.choices.empty() ? flag.value_name : flag.choices);
  std::string right = flag.doc;
  if (flag.is_required) right += " (required)";
  if (flag.is_repeatable) right += " (may be repeated)";
  if (!flag.default_text.empty()) right += " (default " + flag.default_text + ")";
  append_entry(out, left, right);
}

}  // namespace

std::string help_text(const Program& program, std::span<const std::string> path) {
  const Command* command = find_command(program, path);
  const std::vector<Command>& children = command == nullptr ? program.commands : command->children;
  std::string name = program.name;
  for (const std::string& part : path) name += " " + part;
  std::string out = name + ": " + (command == nullptr ? program.doc : command->doc) + "\n\nusage: " + name;
  if (!children.empty()) out += " <command>";
  if (command != nullptr) {
    for (const std::string& argument : command->arguments) out += " " + argument;
  }
  out += " [flags]\n";
  if (!children.empty()) {
    out += "\ncommands:\n";
    for (const Command& child : children) {
      if (!child.is_hidden) append_entry(out, child.name, child.doc);
    }
    if (command == nullptr) {
      append_entry(out, "completion", "print a completion script for bash, zsh or fish");
      append_entry(out, "help", "explain a command");
    }
  }
  out += "\nflags:\n";
  if (command != nullptr) {
    for (const Flag& flag : command->flags) append_flag(out, flag);
  }
  const bool takes_keys = command != nullptr && command->takes_keys;
  if (takes_keys) append_flag(out, {"config", "FILE", "configuration, YAML or JSON", "", "", false, false});
  append_flag(out, {"help", "", "explain and exit", "", "", false, false});
  if (command == nullptr)
    append_flag(out, {"version", "", "print the version and exit", "", "", false, false});
  if (takes_keys) {
    out +=
        "\nconfiguration keys, as flags (in the environment: TUNNELMESH_ and the key in capitals, with _ for "
        ". and -):\n" +
        config::keys_help(program.role);
  }
  return out;
}

}  // namespace tmesh::cli
