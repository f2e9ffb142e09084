// Completion scripts: the table written out as one `case` per command. The words are
// names of ours (letters, digits, '-', '_', '.'), so nothing needs quoting.
#include "cmd/cli.hpp"

namespace tmesh::cli {
namespace {

struct Place {
  std::string path;  // "/user/create"; empty at the top
  std::string words;
};

void append_word(std::string& words, std::string_view word) {
  if (!words.empty()) words += ' ';
  words += word;
}

void collect(const Program& program, const std::string& path, const Command* command,
             std::vector<Place>& places) {
  const std::vector<Command>& children = command == nullptr ? program.commands : command->children;
  Place place{path, ""};
  for (const Command& child : children) {
    if (!child.is_hidden) append_word(place.words, child.name);
  }
  if (command == nullptr) append_word(place.words, "completion help --version");
  if (command != nullptr) {
    for (const Flag& flag : command->flags) append_word(place.words, "--" + flag.name);
    if (command->takes_keys) {
      append_word(place.words, "--config");
      for (const config::Key& key : config::keys()) {
        const bool is_offered =
            (key.roles & program.role) != 0 && key.is_settable() && key.effect == config::Effect::full;
        if (is_offered) append_word(place.words, "--" + std::string(key.path));
      }
    }
  }
  append_word(place.words, "--help");
  places.push_back(std::move(place));
  for (const Command& child : children) {
    if (!child.is_hidden) collect(program, path + "/" + child.name, &child, places);
  }
  if (command == nullptr) places.push_back({"/completion", "bash zsh fish"});
}

std::string function_name(const Program& program) {
  std::string out = "_";
  for (const char c : program.name) out += c == '-' ? '_' : c;
  return out;
}

// Patterns of every place but the top, between separators.
std::string patterns(const std::vector<Place>& places, std::string_view separator) {
  std::string out;
  for (const Place& place : places) {
    if (place.path.empty()) continue;
    if (!out.empty()) out += separator;
    out += place.path;
  }
  return out;
}

std::string bash_script(const Program& program, const std::vector<Place>& places) {
  const std::string function = function_name(program);
  std::string out = "# bash completion for " + program.name + "\n" + function +
                    "() {\n  local cur=${COMP_WORDS[COMP_CWORD]} at=\"\" words=\"\" i\n"
                    "  for ((i = 1; i < COMP_CWORD; i++)); do\n    case \"$at/${COMP_WORDS[i]}\" in\n      " +
                    patterns(places, " | ") +
                    ") at=\"$at/${COMP_WORDS[i]}\" ;;\n    esac\n  done\n  case \"$at\" in\n";
  for (const Place& place : places) out += "    \"" + place.path + "\") words=\"" + place.words + "\" ;;\n";
  out += "  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\ncomplete -o default -F " + function +
         " " + program.name + "\n";
  return out;
}

std::string zsh_script(const Program& program, const std::vector<Place>& places) {
  const std::string function = function_name(program);
  std::string out = "#compdef " + program.name + "\n" + function +
                    "() {\n  local at=\"\" word\n  local -a list\n  for word in ${words[2,CURRENT-1]}; do\n"
                    "    case \"$at/$word\" in\n      " +
                    patterns(places, "|") + ") at=\"$at/$word\" ;;\n    esac\n  done\n  case \"$at\" in\n";
  for (const Place& place : places) out += "    \"" + place.path + "\") list=(" + place.words + ") ;;\n";
  out += "  esac\n  compadd -- $list || _files\n}\ncompdef " + function + " " + program.name + "\n";
  return out;
}

std::string fish_script(const Program& program, const std::vector<Place>& places) {
  const std::string function = "_" + function_name(program) + "_words";
  std::string out =
      "# fish completion for " + program.name + "\nfunction " + function +
      "\n  set -l at \"\"\n  for word in (commandline -opc)[2..]\n    switch \"$at/$word\"\n      case " +
      patterns(places, " ") + "\n        set at \"$at/$word\"\n    end\n  end\n  switch \"$at\"\n";
  for (const Place& place : places) {
    out += "    case \"" + place.path + "\"\n      string split ' ' -- \"" + place.words + "\"\n";
  }
  out += "  end\nend\ncomplete -c " + program.name + " -a '(" + function + ")'\n";
  return out;
}

}  // namespace

std::string completion_script(const Program& program, std::string_view shell) {
  std::vector<Place> places;
  collect(program, "", nullptr, places);
  if (shell == "bash") return bash_script(program, places);
  if (shell == "zsh") return zsh_script(program, places);
  if (shell == "fish") return fish_script(program, places);
  return "";
}

}  // namespace tmesh::cli
