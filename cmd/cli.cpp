#include "cmd/cli.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "cpp/base/exit_code.hpp"
#include "cpp/base/nearest.hpp"
#include "cpp/base/parse.hpp"
#include "cpp/base/redact.hpp"
#include "cpp/config/problems.hpp"

extern "C" char** environ;  // NOLINT(readability-redundant-declaration): POSIX has it in no header

namespace tmesh::cli {
namespace {

constexpr std::array<std::string_view, 3> kShells = {"bash", "zsh", "fish"};
constexpr std::size_t kShownBytesMax = 64;  // of a mistyped word

// A mistyped word in a message: printable ASCII only, not too long.
std::string shown(std::string_view word) {
  std::string out;
  for (const char c : word.substr(0, kShownBytesMax)) out += c >= ' ' && c <= '~' ? c : '?';
  return out;
}

void print(std::FILE* to, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), to);
}

const Command* child_of(const std::vector<Command>& commands, std::string_view name) {
  const auto it =
      std::find_if(commands.begin(), commands.end(), [&](const Command& c) { return c.name == name; });
  return it == commands.end() ? nullptr : &*it;
}

// Reads the words from left to right.
class Parser {
 public:
  Parser(const Program& program, std::span<const std::string_view> words, Invocation& into)
      : program_(program), words_(words), into_(into) {}

  // False: `error` says why.
  bool run() {
    bool flags_ended = false;
    while (at_ < words_.size()) {
      const std::string_view word = words_[at_++];
      if (!flags_ended && word == "--") {
        flags_ended = true;
      } else if (!flags_ended && word.size() > 1 && word.starts_with('-')) {
        if (!take_flag(word)) return false;
        if (wants_help || wants_version) return true;
      } else if (!take_word(word)) {
        return false;
      }
    }
    return true;
  }

  // Once everything has been read: what is missing.
  bool is_complete() {
    if (command == nullptr) return refuse("a command is missing");
    if (command->run == nullptr) return refuse("a command is missing behind \"" + command->name + "\"");
    if (into_.arguments.size() < command->arguments.size()) {
      return refuse(command->arguments[into_.arguments.size()] + " is missing");
    }
    for (const Flag& flag : command->flags) {
      const bool is_given = std::any_of(into_.options.begin(), into_.options.end(),
                                        [&](const Invocation::Option& o) { return o.name == flag.name; });
      if (flag.is_required && !is_given) return refuse("--" + flag.name + " is required");
    }
    return true;
  }

  const Command* command = nullptr;
  bool wants_help = false;
  bool wants_version = false;
  std::string error;
  std::vector<std::string_view> secrets;  // in `words`

 private:
  // What followed "=", or was taken from the next word.
  struct Value {
    bool is_given = false;
    std::string_view text;
  };

  bool refuse(std::string message) {
    error = std::move(message);
    return false;
  }

  const std::vector<Command>& children() const {
    return command == nullptr ? program_.commands : command->children;
  }

  bool take_word(std::string_view word) {
    const bool is_leaf = command != nullptr && command->children.empty();
    if (!is_leaf) {
      if (const Command* child = child_of(children(), word)) {
        command = child;
        into_.path.emplace_back(word);
        return true;
      }
      std::vector<std::string_view> names;
      for (const Command& other : children()) {
        if (!other.is_hidden) names.push_back(other.name);
      }
      names.insert(names.end(), {"help", "completion"});
      return refuse(config::with_proposal("unknown command \"" + shown(word) + "\"", nearest(word, names)));
    }
    if (into_.arguments.size() == command->arguments.size()) return refuse("too many arguments");
    into_.arguments.emplace_back(word);
    return true;
  }

  bool take_flag(std::string_view word) {
    if (word == "-h") {
      wants_help = true;
      return true;
    }
    const std::size_t equals = word.find('=');
    const std::string_view dashed = word.substr(0, equals);
    Value value;
    if (equals != std::string_view::npos) value = {true, word.substr(equals + 1)};
    if (!dashed.starts_with("--"))
      return refuse("unknown flag \"" + shown(dashed) + "\"; flags have two dashes");
    const std::string_view name = dashed.substr(2);
    if (name == "help" || name == "version") {
      (name == "help" ? wants_help : wants_version) = true;
      return true;
    }
    if (command != nullptr) {
      for (const Flag& flag : command->flags) {
        if (flag.name == name) return take_own(flag, value);
      }
    }
    if (may_take_keys()) {
      if (name == "config") return take_config(value);
      if (const config::Key* key = config::find_flag(name, program_.role)) return take_key(*key, name, value);
    }
    return refuse(config::with_proposal("unknown flag \"--" + shown(name) + "\"", nearest_flag(name)));
  }

  // Before a command is named, flags of the configuration are welcome as well.
  bool may_take_keys() const {
    return command == nullptr || command->takes_keys || !command->children.empty();
  }

  bool next_value(std::string_view name, Value& value) {
    if (value.is_given) return true;
    if (at_ == words_.size()) return refuse("--" + std::string(name) + " needs a value");
    value = {true, words_[at_++]};
    return true;
  }

  // "--name", "--name=false"; for keys also "--name false".
  bool switch_value(std::string_view name, Value& value, bool may_follow) {
    if (!value.is_given && may_follow && at_ < words_.size() &&
        (words_[at_] == "true" || words_[at_] == "false")) {
      value = {true, words_[at_++]};
    }
    if (!value.is_given) value = {true, "true"};
    const Result<bool> parsed = parse_bool(value.text);
    if (!parsed) return refuse("--" + std::string(name) + " must be true or false");
    value.text = *parsed ? "true" : "false";
    return true;
  }

  bool take_own(const Flag& flag, Value value) {
    const bool is_switch = flag.value_name.empty();
    if (is_switch ? !switch_value(flag.name, value, false) : !next_value(flag.name, value)) return false;
    const bool is_given = std::any_of(into_.options.begin(), into_.options.end(),
                                      [&](const Invocation::Option& o) { return o.name == flag.name; });
    if (is_given && !flag.is_repeatable) return refuse("--" + flag.name + " is given twice");
    if (!flag.choices.empty()) {
      std::vector<std::string_view> choices;
      for (std::string_view rest = flag.choices; !rest.empty();) {
        const std::size_t bar = rest.find('|');
        choices.push_back(rest.substr(0, bar));
        rest = bar == std::string_view::npos ? std::string_view() : rest.substr(bar + 1);
      }
      if (std::find(choices.begin(), choices.end(), value.text) == choices.end()) {
        std::string message = "--" + flag.name + " must be one of";
        for (const std::string_view choice : choices) message.append(" ").append(choice);
        return refuse(config::with_proposal(std::move(message), nearest(value.text, choices)));
      }
    }
    into_.options.push_back({flag.name, std::string(value.text)});
    return true;
  }

  bool take_config(Value value) {
    if (!next_value("config", value)) return false;
    if (!into_.source.file.empty()) return refuse("--config is given twice");
    if (value.text.empty()) return refuse("--config needs a file");
    into_.source.file = value.text;
    return true;
  }

  bool take_key(const config::Key& key, std::string_view name, Value value) {
    const bool is_switch = key.type == config::Type::boolean;
    if (is_switch ? !switch_value(name, value, true) : !next_value(name, value)) return false;
    if (key.is_secret) secrets.push_back(value.text);
    into_.source.flags.push_back({std::string(name), std::string(key.path), std::string(value.text)});
    return true;
  }

  std::string nearest_flag(std::string_view name) const {
    std::vector<std::string_view> names = {"help", "version"};
    if (command != nullptr) {
      for (const Flag& flag : command->flags) names.push_back(flag.name);
    }
    std::string_view near = nearest(name, names);
    if (may_take_keys()) {
      names.push_back("config");
      for (const config::Key& key : config::keys()) {
        if ((key.roles & program_.role) == 0 || !key.is_settable()) continue;
        for (std::string_view rest = key.flags; !rest.empty();) {
          const std::size_t bar = rest.find('|');
          names.push_back(rest.substr(0, bar));
          rest = bar == std::string_view::npos ? std::string_view() : rest.substr(bar + 1);
        }
      }
      near = nearest(name, names);
      const std::string_view key =
          near.empty() ? config::nearest_key(name, program_.role) : std::string_view();
      if (config::find_flag(key, program_.role) != nullptr) near = key;
    }
    return near.empty() ? "" : "--" + std::string(near);
  }

  const Program& program_;
  std::span<const std::string_view> words_;
  Invocation& into_;
  std::size_t at_ = 0;
};

int usage_error(const Program& program, const Invocation& invocation, const std::string& message) {
  std::string name = program.name;
  for (const std::string& part : invocation.path) name += " " + part;
  print(invocation.err, name + ": " + message + "\n" + "try: " + name + " --help\n");
  return kExitUsage;
}

// The command line of a process is shown to every user of the machine (`ps`): a secret in it
// was seen by whoever looked in time, but by nobody from here on.
void hide(std::span<const std::string_view> secrets) {
  for (const std::string_view secret : secrets) secure_wipe(const_cast<char*>(secret.data()), secret.size());
}

int run_help(const Program& program, std::span<const std::string_view> words, Invocation& invocation) {
  std::vector<std::string> path;
  for (const std::string_view word : words) {
    if (word != "--help" && word != "-h") path.emplace_back(word);
  }
  if (!path.empty() && find_command(program, path) == nullptr) {
    return usage_error(program, invocation, "help: there is no such command");
  }
  print(invocation.out, help_text(program, path));
  return kExitOk;
}

int run_completion(const Program& program, std::span<const std::string_view> words, Invocation& invocation) {
  const bool wants_help =
      std::any_of(words.begin(), words.end(), [](std::string_view w) { return w == "--help" || w == "-h"; });
  if (wants_help) {
    print(invocation.out, "usage: " + program.name +
                              " completion bash|zsh|fish\n\nprints a completion script, for example\n"
                              "  source <(" +
                              program.name + " completion bash)\n");
    return kExitOk;
  }
  if (words.size() != 1) return usage_error(program, invocation, "completion needs one of bash, zsh, fish");
  const std::string script = completion_script(program, words.front());
  if (script.empty()) {
    return usage_error(
        program, invocation,
        config::with_proposal("completion needs one of bash, zsh, fish", nearest(words.front(), kShells)));
  }
  print(invocation.out, script);
  return kExitOk;
}

}  // namespace

std::string Invocation::value(std::string_view name) const {
  for (auto it = options.rbegin(); it != options.rend(); ++it) {
    if (it->name == name) return it->value;
  }
  const Flag* f = flag(name);
  if (f == nullptr) return "";
  return f->value_name.empty() && f->default_text.empty() ? "false" : f->default_text;
}

std::vector<std::string> Invocation::values(std::string_view name) const {
  std::vector<std::string> found;
  for (const Option& option : options) {
    if (option.name == name) found.push_back(option.value);
  }
  return found;
}

const Flag* Invocation::flag(std::string_view name) const {
  const Command* command = program == nullptr ? nullptr : find_command(*program, path);
  if (command == nullptr) return nullptr;
  for (const Flag& f : command->flags) {
    if (f.name == name) return &f;
  }
  return nullptr;
}

const Command* find_command(const Program& program, std::span<const std::string> path) {
  const std::vector<Command>* commands = &program.commands;
  const Command* found = nullptr;
  for (const std::string& name : path) {
    found = child_of(*commands, name);
    if (found == nullptr) return nullptr;
    commands = &found->children;
  }
  return found;
}

namespace {

// hides_secrets: the words are the process's own, not somebody's constants.
int parse_and_run(const Program& program, std::span<const std::string_view> arguments, bool hides_secrets,
                  const char* const* environment, std::FILE* out, std::FILE* err) {
  Invocation invocation;
  invocation.program = &program;
  invocation.source.environment = environment;
  invocation.out = out;
  invocation.err = err;
  if (!arguments.empty() && arguments.front() == "help")
    return run_help(program, arguments.subspan(1), invocation);
  if (!arguments.empty() && arguments.front() == "completion") {
    return run_completion(program, arguments.subspan(1), invocation);
  }
  Parser parser(program, arguments, invocation);
  const bool is_parsed = parser.run();
  if (hides_secrets) hide(parser.secrets);
  if (parser.wants_version) {
    print(out, program.name + " " TMESH_VERSION "\n");
    return kExitOk;
  }
  if (parser.wants_help) {
    print(out, help_text(program, invocation.path));
    return kExitOk;
  }
  if (!is_parsed || !parser.is_complete()) return usage_error(program, invocation, parser.error);
  return parser.command->run(invocation);
}

}  // namespace

int execute(const Program& program, std::span<const std::string_view> arguments,
            const char* const* environment, std::FILE* out, std::FILE* err) {
  return parse_and_run(program, arguments, false, environment, out, err);
}

// A descriptor below 3 that is free would go to the next socket, and what is printed into it.
// What takes its place fails as the missing one would: it is open for the other direction.
static void fill_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free number is this one.
    (void)::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

int execute(const Program& program, int argc, char** argv) {
  fill_standard_descriptors();
  std::vector<std::string_view> words;
  for (int i = 1; i < argc; ++i) words.emplace_back(argv[i]);
  int code = parse_and_run(program, words, true, environ, stdout, stderr);
  // A full disk or a closed pipe must not look like success to a script.
  if (std::fflush(stdout) != 0 && code == kExitOk) {
    print(stderr, program.name + ": the output could not be written\n");
    code = kExitFailure;
  }
  return code;
}

}  // namespace tmesh::cli
