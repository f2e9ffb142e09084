#include "cpp/config/changes.hpp"

#include <algorithm>
#include <string>

#include "cpp/base/log.hpp"

namespace tmesh::config {
namespace {

// One wrong indentation makes a problem of every line below it.
constexpr std::size_t kLoggedMax = 20;

bool is_same(const Element& a, const Element& b) {
  return std::equal(a.fields.begin(), a.fields.end(), b.fields.begin(), b.fields.end(),
                    [](const Element::Field& x, const Element::Field& y) {
                      return x.key == y.key && x.setting.values == y.setting.values;
                    });
}

bool is_same(const Settings& a, const Settings& b, const Key& key) {
  if (key.type != Type::objects) return a.at(key).values == b.at(key).values;
  const auto& left = a.elements(key.path);
  const auto& right = b.elements(key.path);
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const Element& x, const Element& y) { return is_same(x, y); });
}

std::string joined(const std::vector<std::string_view>& keys) {
  std::string out;
  for (const std::string_view key : keys) out.append(out.empty() ? "" : ", ").append(key);
  return out;
}

void log_problems(const Problems& problems, bool is_warning) {
  std::size_t logged = 0;
  for (const Problem& problem : problems.list()) {
    if (problem.is_warning != is_warning || logged == kLoggedMax) continue;
    logged++;
    log::warn(is_warning ? "config_warning" : "config_problem", {{"problem", problem.text()}});
  }
}

}  // namespace

Changes compare(const Settings& running, const Settings& fresh, Role role) {
  Changes changes;
  for (const Key& key : keys()) {
    const bool counts =
        (key.roles & role) != 0 && key.effect == Effect::full && !key.is_element() && key.type != Type::tree;
    if (!counts || is_same(running, fresh, key)) continue;
    (key.is_live ? changes.live : changes.restart).push_back(key.path);
  }
  return changes;
}

bool judge(const Settings& started, const Settings& fresh, const Problems& problems, Role role,
           ReloadStats& stats) {
  if (problems.has_errors()) {
    stats.refused_count++;
    log_problems(problems, false);
    log::warn("config_refused",
              {{"problems", problems.error_count()}, {"effect", "the running configuration is kept"}});
    return false;
  }
  stats.applied_count++;
  log_problems(problems, true);
  const Changes changes = compare(started, fresh, role);
  if (!changes.restart.empty()) log::warn("config_needs_restart", {{"keys", joined(changes.restart)}});
  return true;
}

}  // namespace tmesh::config
