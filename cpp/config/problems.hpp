// Everything that is wrong with a configuration, collected before anything is said.
//
// One problem is one line: `where: key: message` (a warning: `where: warning: key:
// message`), where = `file:line`, `file`, `credential NAME`, `env NAME` or `flag --name`, or nothing. A
// message never repeats a configured value: it may be a secret, or an address of a private network
// (requirement A7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tmesh::config {

// Where a value came from.
struct Origin {
  // In the order of precedence, the lowest first (requirement F1).
  enum class Kind : uint8_t { fallback, file, credential, env, flag };
  Kind kind = Kind::fallback;
  std::string name;  // the file, the credential, the variable, or the flag without its dashes
  std::size_t line = 0;

  // "default", "file:line", "credential NAME", "env NAME", "flag --name".
  std::string text() const;
};

struct Problem {
  Origin where;
  std::string key;  // may be empty
  std::string message;
  bool is_warning = false;

  std::string text() const;
};

class Problems {
 public:
  // A file of a megabyte could hold a problem on every line; nobody reads more.
  static constexpr std::size_t kMax = 1000;

  void error(Origin where, std::string_view key, std::string message) {
    add({std::move(where), std::string(key), std::move(message), false});
  }
  void warn(Origin where, std::string_view key, std::string message) {
    add({std::move(where), std::string(key), std::move(message), true});
  }

  bool has_errors() const { return error_count_ > 0; }
  bool is_full() const { return list_.size() >= kMax; }
  std::size_t error_count() const { return error_count_; }
  std::size_t warning_count() const { return list_.size() - listed_errors_; }
  const std::vector<Problem>& list() const { return list_; }

  // Errors, or warnings, one per line, each line ended; files by line, everything
  // else in the order it was found.
  std::string errors_text() const { return text(false); }
  std::string warnings_text() const { return text(true); }

 private:
  void add(Problem problem);
  std::string text(bool is_warning) const;

  std::vector<Problem> list_;
  std::size_t error_count_ = 0;
  std::size_t listed_errors_ = 0;
};

// "message (did you mean x?)", or the message alone when there is no proposal.
std::string with_proposal(std::string message, std::string_view proposal);

}  // namespace tmesh::config
