#include "cpp/config/sources.hpp"

#include <array>
#include <cstring>
#include <utility>

#include "cpp/base/file.hpp"
#include "cpp/base/nearest.hpp"
#include "cpp/config/file_source.hpp"

namespace tmesh::config {
namespace {

constexpr std::string_view kEnvPrefix = "TUNNELMESH_";

// Variables that are no keys: secrets that never stand in a file, and tests.
constexpr std::array<std::string_view, 8> kOtherVariables = {
    "TUNNELMESH_SOCKS5_USERNAME",     "TUNNELMESH_SOCKS5_PASSWORD",      "TUNNELMESH_HTTP_PROXY_USERNAME",
    "TUNNELMESH_HTTP_PROXY_PASSWORD", "TUNNELMESH_TOKEN_ENCRYPTION_KEY", "TUNNELMESH_TOKEN_ENCRYPTION_KEY_ID",
    "TUNNELMESH_TRACE_SIGNING_KEY",   "TUNNELMESH_TEST_MYSQL_DSN"};

std::vector<std::string> texts_of(const Key& key, std::string_view value) {
  return key.type == Type::list ? split_list(value) : std::vector<std::string>{std::string(value)};
}

// A higher source replaces the value of a lower one; what was refused below does
// not matter any more for "is it there".
void override_with(Settings& settings, const Key& key, std::vector<std::string> texts, Origin origin,
                   Problems& problems) {
  Setting fresh;
  store(fresh, key, std::move(texts), std::move(origin), problems, key.path);
  if (fresh.is_refused) {
    settings.at(key).is_refused = true;
    return;
  }
  if (key.is_secret) {
    for (std::string& old : settings.at(key).values) secure_wipe(old);
  }
  settings.at(key) = std::move(fresh);
}

// A variable that names nothing may belong to somebody else (container platforms
// inject such names), so only a near miss is worth a word.
void warn_unknown(std::string_view name, Problems& problems) {
  std::vector<std::string> names;
  for (const Key& key : keys()) {
    if (key.is_settable()) names.push_back(env_name(key.path));
  }
  std::vector<std::string_view> candidates(names.begin(), names.end());
  candidates.insert(candidates.end(), kOtherVariables.begin(), kOtherVariables.end());
  const std::string_view near = nearest(name, candidates);
  if (near.empty() || edit_distance(name, near) > 2) return;
  problems.warn({Origin::Kind::env, std::string(name), 0}, "", with_proposal("names no key", near));
}

void apply_environment(const char* const* environment, Settings& settings, Problems& problems) {
  if (environment == nullptr) return;
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const std::size_t equals = entry.find('=');
    if (!entry.starts_with(kEnvPrefix) || equals == std::string_view::npos) continue;
    const std::string_view name = entry.substr(0, equals);
    const std::string_view value = entry.substr(equals + 1);
    if (value.empty()) continue;  // as unset, so that a service file can switch one off
    bool is_known = false;
    for (const std::string_view other : kOtherVariables) is_known = is_known || name == other;
    for (const Key& key : keys()) {
      if (is_known || !key.is_settable() || env_name(key.path) != name) continue;
      is_known = true;
      override_with(settings, key, texts_of(key, value), {Origin::Kind::env, std::string(name), 0}, problems);
    }
    if (!is_known) warn_unknown(name, problems);
  }
}

void apply_flags(const std::vector<FlagValue>& flags, Settings& settings, Problems& problems) {
  std::vector<const Key*> started;  // lists that a flag has begun: later ones add
  for (const FlagValue& flag : flags) {
    const Key* key = find_key(flag.path);
    if (key == nullptr || !key->is_settable()) continue;
    const Origin origin{Origin::Kind::flag, flag.name, 0};
    if (key->is_secret) {
      problems.warn(origin, key->path,
                    "is visible to every user of this machine until the program has read it; use a file or "
                    "the environment");
    }
    std::vector<std::string> texts = texts_of(*key, flag.value);
    bool is_started = false;
    for (const Key* other : started) is_started = is_started || other == key;
    if (key->type == Type::list && is_started) {
      const std::vector<std::string>& before = settings.at(*key).values;
      texts.insert(texts.begin(), before.begin(), before.end());
    }
    started.push_back(key);
    override_with(settings, *key, std::move(texts), origin, problems);
  }
}

void apply_tunnel(const std::vector<FlagValue>& fields, Settings& settings, Problems& problems) {
  if (fields.empty()) return;
  Element element;
  element.origin = {Origin::Kind::flag, fields.front().name, 0};
  element.path = "client.tunnels[0]";
  for (const FlagValue& field : fields) {
    const Key* key = find_key("client.tunnels[]." + field.path);
    if (key == nullptr) continue;
    Setting setting;
    store(setting, *key, texts_of(*key, field.value), {Origin::Kind::flag, field.name, 0}, problems,
          key->path.substr(key->path.rfind('.') + 1));
    element.fields.push_back({key, std::move(setting)});
  }
  settings.elements("client.tunnels") = {std::move(element)};
  settings.at(*find_key("client.tunnels")).origin = {Origin::Kind::flag, fields.front().name, 0};
}

// A secret among the other keys makes a secret of the whole file.
void check_mode(const Source& source, const Settings& settings, Problems& problems) {
  if (source.file.empty() || !is_open_to_others(source.file)) return;
  for (const Key& key : keys()) {
    const Setting& setting = settings.at(key);
    if (!key.is_secret || setting.origin.kind != Origin::Kind::file || setting.text().empty()) continue;
    problems.warn(setting.origin, key.path, "other users have access to the file; its mode should be 0600");
    return;
  }
}

// One warning for each feature that is configured and not there; an error where it
// is switched on.
void check_effects(const Settings& settings, Role role, Problems& problems) {
  std::vector<std::string_view> warned;
  for (const Key& key : keys()) {
    const Setting& setting = settings.at(key);
    if (key.effect == Effect::full || (key.roles & role) == 0 || !setting.is_set()) continue;
    if (key.effect == Effect::unavailable && key.type == Type::boolean && settings.boolean(key.path)) {
      problems.error(setting.origin, key.path, "is not available in this version");
      continue;
    }
    bool is_warned = false;
    for (const std::string_view feature : warned) is_warned = is_warned || feature == key.feature;
    if (is_warned) continue;
    warned.push_back(key.feature);
    problems.warn(setting.origin, key.feature, "is accepted but has no effect in this version");
  }
}

}  // namespace

Settings gather(const Source& source, Role role, Problems& problems, FilePrints* files) {
  Settings settings;
  if (!source.file.empty()) {
    const uint64_t print = apply_file(source, role, settings, problems);
    if (files != nullptr) (*files)[source.file] = print;
  }
  check_mode(source, settings, problems);
  apply_environment(source.environment, settings, problems);
  apply_flags(source.flags, settings, problems);
  apply_tunnel(source.tunnel, settings, problems);
  check_effects(settings, role, problems);
  return settings;
}

std::string_view environment_value(const Source& source, std::string_view name) {
  if (source.environment == nullptr) return {};
  for (const char* const* at = source.environment; *at != nullptr; ++at) {
    const std::string_view entry = *at;
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=') {
      return entry.substr(name.size() + 1);
    }
  }
  return {};
}

}  // namespace tmesh::config
