#include "cpp/config/problems.hpp"

#include <algorithm>

namespace tmesh::config {

std::string Origin::text() const {
  switch (kind) {
    case Kind::file:
      return line == 0 ? name : name + ":" + std::to_string(line);
    case Kind::credential:
      return "credential " + name;
    case Kind::env:
      return "env " + name;
    case Kind::flag:
      return "flag --" + name;
    case Kind::fallback:
      break;
  }
  return "default";
}

std::string Problem::text() const {
  std::string out;
  if (where.kind != Origin::Kind::fallback) out = where.text() + ": ";
  if (is_warning) out += "warning: ";
  if (!key.empty()) out += key + ": ";
  return out + message;
}

void Problems::add(Problem problem) {
  if (!problem.is_warning) ++error_count_;
  if (is_full()) return;
  if (!problem.is_warning) ++listed_errors_;
  list_.push_back(std::move(problem));
}

std::string Problems::text(bool is_warning) const {
  std::vector<const Problem*> chosen;
  for (const Problem& problem : list_) {
    if (problem.is_warning == is_warning) chosen.push_back(&problem);
  }
  // Problems of values come after those of the syntax, whatever their lines are;
  // the reader goes through the file from top to bottom.
  std::sort(chosen.begin(), chosen.end(), [](const Problem* a, const Problem* b) {
    const bool a_in_file = a->where.kind == Origin::Kind::file && a->where.line > 0;
    const bool b_in_file = b->where.kind == Origin::Kind::file && b->where.line > 0;
    if (a_in_file != b_in_file) return a_in_file;
    if (a_in_file && a->where.line != b->where.line) return a->where.line < b->where.line;
    return a < b;  // both in list_: the order they were found in
  });
  std::string out;
  for (const Problem* problem : chosen) out += problem->text() + "\n";
  if (!is_warning && error_count_ > chosen.size()) {
    out += "and " + std::to_string(error_count_ - chosen.size()) + " more\n";
  }
  return out;
}

std::string with_proposal(std::string message, std::string_view proposal) {
  if (!proposal.empty()) message.append(" (did you mean ").append(proposal).append("?)");
  return message;
}

}  // namespace tmesh::config
