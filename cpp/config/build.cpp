#include "cpp/config/build.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

#include "cpp/base/address.hpp"
#include "cpp/base/file.hpp"
#include "cpp/base/parse.hpp"

namespace tmesh::config {
namespace {

constexpr std::size_t kMetadataItemsMax = 32;  // WIRE 2, agent metadata

}  // namespace

Origin Build::where(std::string_view path) const {
  const Setting& setting = settings.at(path);
  if (setting.is_set() || source.file.empty()) return setting.origin;
  return {Origin::Kind::file, source.file, 0};
}

void Build::require(std::string_view path) {
  const Setting& setting = settings.at(path);
  if (!is_whole() || setting.is_refused || !setting.text().empty()) return;
  const std::string name(path);
  // The command line is no place for a secret.
  const std::string flag = find_key(path)->is_secret ? name + "_file" : name;
  error(path, "is required (in the file, as --" + flag + " or as " + env_name(path) + ")");
}

void Build::require_readable(std::string_view path) {
  if (!is_whole() || settings.text(path).empty()) return;
  const std::vector<std::string> file = {settings.string(path)};
  files.merge(print_files(file));
  const Result<void> readable = check_readable(file.front());
  if (!readable) error(path, std::string("the file cannot be read: ") + readable.error().text);
}

namespace {

Capabilities build_capabilities(Build& build, const std::string& role) {
  const std::string prefix = role + ".capabilities.";
  return {build.settings.boolean(prefix + "open_result"), build.settings.boolean(prefix + "flow_control"),
          build.settings.boolean(prefix + "fair_writer"), build.settings.boolean(prefix + "early_data"),
          build.settings.boolean(prefix + "window_growth")};
}

Limits build_limits(Build& build, const std::string& role) {
  const std::string prefix = role + ".limits.";
  Limits limits;
  limits.memory_budget_bytes = build.settings.number(prefix + "memory_budget");
  limits.max_window_bytes = build.settings.number(prefix + "max_window");
  // One stream must not be able to take the whole budget.
  const uint64_t most = limits.memory_budget_bytes / 4;
  if (limits.max_window_bytes > most) {
    if (build.settings.is_set(prefix + "max_window")) {
      build.warn(prefix + "max_window", "is lowered to a quarter of " + prefix + "memory_budget");
    }
    limits.max_window_bytes = most;
    build.settings.replace(prefix + "max_window", std::to_string(most));
  }
  const Rate rate = build.settings.rate(prefix + "window_violations");
  limits.window_violations_count = rate.count;
  limits.window_violations_interval_us = rate.interval_us;
  limits.stalled_close_timeout_us = build.settings.number(prefix + "stalled_close_timeout");
  return limits;
}

LogSettings build_log(Build& build, const std::string& role) {
  LogSettings out;
  out.level = log::level_from(build.settings.text(role + ".log_level")).value_or(out.level);
  out.format = log::format_from(build.settings.text(role + ".log_format")).value_or(out.format);
  return out;
}

}  // namespace

void build_program(Build& build, const std::string& role, ProgramSettings& out) {
  const Settings& s = build.settings;
  out.capabilities = build_capabilities(build, role);
  out.limits = build_limits(build, role);
  out.shutdown_timeout_us = s.number(role + ".shutdown_timeout");
  out.log = build_log(build, role);
  out.watches_files = s.boolean(role + ".config_watch");
  out.status_socket = s.string(role + ".status_socket");
}

PoolSettings build_pool(Build& build, const std::string& role) {
  const std::string prefix = role + ".connections.";
  PoolSettings pool;
  pool.min_count = build.settings.number(prefix + "min");
  pool.max_count = build.settings.number(prefix + "max");
  pool.high_watermark_count = build.settings.number(prefix + "high_watermark");
  pool.low_watermark_count = build.settings.number(prefix + "low_watermark");
  pool.evaluation_interval_us = build.settings.number(prefix + "evaluation_interval");
  pool.cooldown_us = build.settings.number(prefix + "cooldown");
  if (pool.max_count < pool.min_count) build.error(prefix + "max", "must not be below " + prefix + "min");
  if (pool.low_watermark_count > pool.high_watermark_count) {
    build.error(prefix + "low_watermark", "must not be above " + prefix + "high_watermark");
  }
  return pool;
}

std::vector<MetadataItem> build_metadata(Build& build, const std::string& role) {
  std::vector<MetadataItem> items;
  const std::string path = role + ".metadata";
  const std::vector<Element>& elements = build.settings.elements(path);
  if (elements.size() > kMetadataItemsMax) build.error(path, "must have at most 32 items");
  for (const Element& element : std::span(elements).first(std::min(elements.size(), kMetadataItemsMax))) {
    const auto complain = [&](std::string_view name, const char* message) {
      build.problems.error(element.where(name), element.path + "." + std::string(name), message);
    };
    MetadataItem item;
    item.name = element.text("name");
    item.source = element.text("source") == "file" ? MetadataItem::Kind::file : MetadataItem::Kind::env;
    item.path = element.text("path");
    item.key = element.text("key");
    const bool is_file = item.source == MetadataItem::Kind::file;
    const std::string_view needed = is_file ? "path" : "key";
    const bool is_known = std::any_of(items.begin(), items.end(),
                                      [&](const MetadataItem& other) { return other.name == item.name; });
    if (item.name.empty() && (!element.has("name") || !element.find("name")->is_refused)) {
      complain("name", "is required");
    } else if (!item.name.empty() && is_known) {
      complain("name", "is used twice");
    }
    const bool is_refused = element.has(needed) && element.find(needed)->is_refused;
    if (element.text(needed).empty() && !is_refused) complain(needed, "is required");
    items.push_back(std::move(item));
  }
  return items;
}

ServerLink build_server_link(Build& build, const std::string& role, std::string_view default_path) {
  const std::string url_path = role + ".server_url";
  const std::string ca_path = role + ".tls.ca_file";
  ServerLink link;
  build.require(url_path);
  build.require_readable(ca_path);
  link.url = build.settings.string(url_path);
  link.ca_file = build.settings.string(ca_path);
  const Result<Url> url = parse_ws_url(link.url);
  if (!url) return link;  // empty; the required-check has spoken
  link.endpoint = *url;
  if (link.endpoint.path == "/") link.endpoint.path = default_path;
  if (!url->is_tls && !is_loopback_host(url->host)) {
    build.warn(url_path, "sends the token unencrypted to another machine; use wss://");
  }
  if (!url->is_tls && !link.ca_file.empty()) build.warn(ca_path, "has no effect with a ws:// URL");
  return link;
}

}  // namespace tmesh::config
