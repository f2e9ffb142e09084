// The administration commands of the server binary: user, agent, policy and token,
// straight on the database, with an audit row in the same transaction as each change.
//
// `admin_verbs()` describes every command and its flags; the command line builds
// its help, completion and flag parsing from it, and hands the parsed words to
// `run_admin()`. Values are checked here, not there. Blocking; owns and keeps
// nothing; opens the database and closes it before it returns. Time comes from the
// clock in the request. A secret (token, first password) is printed once, to `out`,
// and never stored or logged.
#pragma once

#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cpp/storage/open.hpp"
#include "cpp/storage/timestamp.hpp"

namespace tmesh::server {

class SecretBox;

struct AdminFlag {
  const char* name;        // without the dashes
  const char* value_name;  // "USER"; nullptr for a switch
  const char* help;
  bool is_required;
  bool is_repeatable;
};

struct AdminVerb {
  const char* resource;  // user, agent, policy, token
  const char* verb;      // create, list, show, delete, revoke, rotate, disable, enable
  const char* argument;  // name of the one positional argument ("ID"), nullptr for none
  const char* help;
  std::span<const AdminFlag> flags;
};

// Every command, grouped by resource. `--json` is understood by all of them and is
// not listed. Static storage.
std::span<const AdminVerb> admin_verbs();

struct AdminOption {
  std::string name;   // without the dashes
  std::string value;  // empty for a switch
};

struct AdminRequest {
  std::string resource;
  std::string verb;
  std::vector<std::string> arguments;
  std::vector<AdminOption> options;  // in the order given; repeatable flags several times
  bool is_json = false;
  storage::DatabaseSettings database;
  bool auto_init = true;  // storage.auto_init: a version 8 database is upgraded first
  storage::WallClock clock = storage::system_clock();
  std::FILE* out = stdout;                // results
  std::FILE* err = stderr;                // one line per problem
  const SecretBox* secret_box = nullptr;  // nullptr: secrets of new tokens are not kept
};

// Runs one command. 0 = done; 1 = failed (no such row, name taken, database
// trouble); 2 = usage: unknown command or flag, missing or malformed value. Nothing
// is changed unless it returns 0, and the first line on `err` says why.
[[nodiscard]] int run_admin(const AdminRequest& request);

}  // namespace tmesh::server
