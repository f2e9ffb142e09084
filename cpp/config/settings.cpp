#include "cpp/config/settings.hpp"

#include "core/base/check.h"
#include "cpp/base/parse.hpp"

namespace tmesh::config {
namespace {

const Key& row_of(std::string_view path) {
  const Key* key = find_key(path);
  TMESH_ASSERT(key != nullptr);
  return *key;
}

bool boolean_of(std::string_view text) {
  const Result<bool> value = parse_bool(text);
  TMESH_ASSERT(value.has_value());
  return *value;
}

std::vector<std::string> default_values(const Key& key) {
  if (key.type == Type::list) return split_list(key.default_text);
  return {std::string(key.default_text)};
}

}  // namespace

const Key& Element::row(std::string_view name) const {
  return row_of(path.substr(0, path.find('[')) + "[]." + std::string(name));
}

const Setting* Element::find(std::string_view name) const {
  const Key& key = row(name);
  for (const Field& field : fields) {
    if (field.key == &key) return &field.setting;
  }
  return nullptr;
}

std::string_view Element::text(std::string_view name) const {
  const Setting* setting = find(name);
  return setting == nullptr || setting->is_refused ? row(name).default_text : setting->text();
}

bool Element::boolean(std::string_view name) const {
  return boolean_of(text(name));
}

uint64_t Element::number(std::string_view name) const {
  return number_of(row(name), text(name));
}

std::vector<std::string> Element::list(std::string_view name) const {
  const Setting* setting = find(name);
  return setting == nullptr ? default_values(row(name)) : setting->values;
}

const Origin& Element::where(std::string_view name) const {
  const Setting* setting = find(name);
  return setting == nullptr ? origin : setting->origin;
}

Settings::Settings() {
  settings_.resize(keys().size());
  for (const Key& key : keys()) {
    settings_[key_index(key)].values = default_values(key);
    if (key.type == Type::objects) groups_.push_back({key.path, {}});
  }
}

Settings::~Settings() {
  for (std::size_t i = 0; i < settings_.size(); ++i) {
    if (!keys()[i].is_secret) continue;
    for (std::string& value : settings_[i].values) secure_wipe(value);
  }
}

const Setting& Settings::at(std::string_view path) const {
  return at(row_of(path));
}

bool Settings::boolean(std::string_view path) const {
  return boolean_of(text(path));
}

uint64_t Settings::number(std::string_view path) const {
  return number_of(row_of(path), text(path));
}

Rate Settings::rate(std::string_view path) const {
  const Result<Rate> value = parse_rate(text(path));
  TMESH_ASSERT(value.has_value());
  return *value;
}

void Settings::replace(std::string_view path, std::string_view text) {
  at(row_of(path)).values = {std::string(text)};
}

const std::vector<Element>& Settings::elements(std::string_view path) const {
  return const_cast<Settings*>(this)->elements(path);
}

std::vector<Element>& Settings::elements(std::string_view path) {
  for (Group& group : groups_) {
    if (group.path == path) return group.elements;
  }
  tmesh_assert_fail("no such list of mappings", __FILE__, __LINE__);
}

}  // namespace tmesh::config
