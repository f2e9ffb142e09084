// The command line as a table: nested commands with flags, from which parsing,
// `--help`, completion and the "did you mean" of every mistake are made.
//
// Flags are `--name value` or `--name=value`; a switch may be `--name`,
// `--name=true` or `--name=false`. Commands that take configuration also take every
// key of the key table as a flag, before or behind the command's name. `--` ends the
// flags. Usage errors end with 2 and one line that names the nearest valid word; a
// value is never repeated, it may be a secret.
#pragma once

#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cpp/config/key_table.hpp"
#include "cpp/config/sources.hpp"

namespace tmesh::cli {

struct Flag {
  std::string name;        // without the dashes
  std::string value_name;  // "HOST:PORT"; empty for a switch
  std::string doc;
  std::string default_text;
  std::string choices;  // "none|password"; empty = anything
  bool is_required = false;
  bool is_repeatable = false;
};

struct Program;

// What was typed, checked against the table.
struct Invocation {
  const Program* program = nullptr;
  std::vector<std::string> path;  // names of the commands, outermost first
  std::vector<std::string> arguments;
  struct Option {
    std::string name;
    std::string value;  // "true" or "false" for a switch
  };
  std::vector<Option> options;  // the command's own flags, in order
  config::Source source;        // --config and the keys; the environment is filled in
  std::FILE* out = stdout;
  std::FILE* err = stderr;

  // The last value, or the flag's default.
  std::string value(std::string_view name) const;
  bool is_on(std::string_view name) const { return value(name) == "true"; }
  std::vector<std::string> values(std::string_view name) const;
  const Flag* flag(std::string_view name) const;
};

struct Command {
  std::string name;
  std::string doc;
  std::vector<Flag> flags;
  std::vector<std::string> arguments;  // names of the positional arguments, all required
  std::vector<Command> children;
  bool takes_keys = false;
  bool is_hidden = false;                   // works, but is not listed
  int (*run)(const Invocation&) = nullptr;  // nullptr: only its children do anything
};

struct Program {
  std::string name;
  std::string doc;
  config::Role role = config::kServer;
  std::vector<Command> commands;
};

// Parses `arguments` (without the program's name) and runs the command. Returns the
// exit code. `help`, `completion` and `--version` are understood in every program.
int execute(const Program& program, std::span<const std::string_view> arguments,
            const char* const* environment, std::FILE* out, std::FILE* err);

// For main(). Overwrites secrets in argv once they are parsed.
int execute(const Program& program, int argc, char** argv);

// The commands above and including the named one (empty path: the program), or
// nullptr. The pointer lives as long as the program.
const Command* find_command(const Program& program, std::span<const std::string> path);

// Text of `--help` for a command path that exists.
std::string help_text(const Program& program, std::span<const std::string> path);

// Shell script for `completion`; empty for a shell other than bash, zsh and fish.
std::string completion_script(const Program& program, std::string_view shell);

}  // namespace tmesh::cli
