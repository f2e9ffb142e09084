#include "cpp/server/agent_report.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "cpp/base/parse.hpp"

namespace tmesh::server {
namespace {

const char* text_of(const char* text) {
  return text == nullptr ? "" : text;
}

void append_items(const tmesh_agent_metadata& metadata, json::Writer& out) {
  out.key("items").begin_array();
  for (size_t i = 0; i < metadata.item_count; ++i) {
    const tmesh_metadata_item& item = metadata.items[i];
    out.begin_object().member("name", text_of(item.name)).member("source", text_of(item.source));
    if (is_secret_item(text_of(item.name), text_of(item.value))) {
      out.member("redacted", true);
    } else {
      out.member("value", text_of(item.value));
    }
    out.end_object();
  }
  out.end_array();
}

std::string make_document(const tmesh_agent_metadata& metadata) {
  std::string text;
  json::Writer out(text);
  out.begin_object();
  append_items(metadata, out);
  out.key("errors").begin_array();
  for (size_t i = 0; i < metadata.error_count; ++i) {
    const tmesh_metadata_error& error = metadata.errors[i];
    out.begin_object()
        .member("name", text_of(error.name))
        .member("code", text_of(error.code))
        .member("message", text_of(error.message))
        .end_object();
  }
  out.end_array().key("capabilities").begin_array();
  const char* names[TMESH_CAP_COUNT];
  const size_t count = tmesh_capability_names(metadata.capabilities, names);
  for (size_t i = 0; i < count; ++i) out.string(names[i]);
  out.end_array().end_object();
  return text;
}

// "scheme://user:password@host"
bool has_url_password(std::string_view value) {
  for (size_t at = value.find("://"); at != std::string_view::npos; at = value.find("://", at + 3)) {
    const std::string_view authority =
        value.substr(at + 3, value.find_first_of("/?# \t\r\n", at + 3) - (at + 3));
    const size_t end = authority.rfind('@');
    if (end != std::string_view::npos && authority.substr(0, end).find(':') != std::string_view::npos)
      return true;
  }
  return false;
}

void append_copied_texts(json::Value list, std::span<const char* const> members, json::Writer& out) {
  for (const json::Value entry : list) {
    if (!entry.is_object()) continue;
    out.begin_object();
    for (const char* member : members) out.member(member, entry.get(member).as_string().value_or(""));
    out.end_object();
  }
}

void append_shown_items(json::Value list, json::Writer& out) {
  for (const json::Value item : list) {
    if (!item.is_object()) continue;
    const std::string_view name = item.get("name").as_string().value_or("");
    const auto value = item.get("value").as_string();
    const bool is_redacted =
        item.get("redacted").as_bool().value_or(false) || is_secret_item(name, value.value_or(""));
    out.begin_object().member("name", name).member("source", item.get("source").as_string().value_or(""));
    if (!is_redacted && value) out.member("value", *value);
    out.member("redacted", is_redacted).end_object();
  }
}

}  // namespace

bool is_secret_item(std::string_view name, std::string_view value) {
  if (tmesh_metadata_name_is_sensitive(std::string(name).c_str())) return true;
  const std::string lower = ascii_lower(value);
  return has_url_password(value) || lower.starts_with("bearer ") || lower.starts_with("basic ") ||
         value.find("PRIVATE KEY-----") != std::string_view::npos ||
         (value.starts_with("eyJ") && std::ranges::count(value, '.') == 2);
}

AgentReport make_agent_report(const tmesh_agent_metadata& metadata) {
  AgentReport report;
  report.is_unreported = metadata.item_count == 0 && metadata.error_count == 0;
  storage::MetadataRecord& row = report.row;
  row.agent_id = text_of(metadata.agent_id);
  row.node_id = text_of(metadata.node_id);
  // Deployed servers take the node id for an agent that does not say its process.
  row.instance_id = text_of(metadata.instance_id);
  if (row.instance_id.empty()) row.instance_id = row.node_id;
  row.epoch = metadata.epoch;
  row.revision = static_cast<int64_t>(
      std::min<uint64_t>(metadata.revision, static_cast<uint64_t>(std::numeric_limits<int64_t>::max())));
  row.metadata = make_document(metadata);
  char reported_at[TMESH_TIME_SIZE];
  tmesh_time_format(reported_at, metadata.reported_at);
  row.reported_at = reported_at;
  return report;
}

void append_report_lists(std::string_view document, json::Writer& out) {
  const Result<json::Document> parsed = json::parse(document);
  const json::Value root = parsed ? parsed->root() : json::Value();
  static constexpr const char* error_members[] = {"name", "code", "message"};
  out.key("items").begin_array();
  append_shown_items(root.get("items"), out);
  out.end_array().key("errors").begin_array();
  append_copied_texts(root.get("errors"), error_members, out);
  out.end_array().key("capabilities").begin_array();
  for (const json::Value name : root.get("capabilities")) {
    if (const auto text = name.as_string()) out.string(*text);
  }
  out.end_array();
}

}  // namespace tmesh::server
