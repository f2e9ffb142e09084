#include "cpp/session/status_report.hpp"

#include <utility>

#include "cpp/base/json.hpp"

namespace tmesh::session {
namespace {

constexpr uint64_t kSecond_us = 1'000'000;

void write_failure(json::Writer& json, const SlotFailure& failure, uint64_t now_us) {
  if (failure.at_us == 0) {
    json.null();
    return;
  }
  json.begin_object();
  json.member("stage", failure.stage).member("code", failure.code);
  json.member("text", failure.text).member("http_status", failure.http_status);
  json.member("seconds_ago", (now_us - failure.at_us) / kSecond_us);
  json.end_object();
}

void write_link(json::Writer& json, const LinkReport& link, uint64_t now_us) {
  const SlotStatus& slot = link.slot;
  const bool is_up = slot.up_since_us != 0;
  json.begin_object();
  if (!link.agent.empty()) json.member("agent", link.agent);
  json.member("slot", slot.number).member("state", slot_state_name(slot.state));
  json.member("open_mode", !is_up ? "" : link.is_strict ? "strict" : "legacy");
  json.member("sub_protocol", is_up ? tmesh_subprotocol_name(slot.subprotocol) : "");
  json.member("up_seconds", is_up ? (now_us - slot.up_since_us) / kSecond_us : 0);
  json.key("rtt_us");
  if (slot.rtt_us == 0) {
    json.null();
  } else {
    json.uinteger(slot.rtt_us);
  }
  json.member("streams", static_cast<uint64_t>(slot.streams_count));
  json.member("draining_links", static_cast<uint64_t>(slot.draining_count));
  json.member("draining_streams", static_cast<uint64_t>(slot.draining_streams_count));
  json.member("reconnects", slot.links_count == 0 ? 0 : slot.links_count - 1);
  json.key("last_error");
  write_failure(json, slot.last_failure, now_us);
  json.end_object();
}

void write_entry(json::Writer& json, const EntryReport& entry) {
  json.begin_object();
  json.member("name", entry.name).member("protocol", entry.protocol).member("listen", entry.listen);
  json.member("locals", static_cast<uint64_t>(entry.locals_count));
  json.member("accepted", entry.accepted_count).member("opens", entry.opens_count);
  json.member("refused", entry.refused_count).member("dropped", entry.dropped_count);
  json.end_object();
}

void write_totals(json::Writer& json, const StatusReport& report) {
  uint64_t up_count = 0;
  uint64_t streams_count = 0;
  uint64_t locals_count = 0;
  for (const LinkReport& link : report.links) {
    up_count += link.slot.state == SlotStatus::State::up;
    streams_count += link.slot.streams_count + link.slot.draining_streams_count;
  }
  for (const EntryReport& entry : report.entries) locals_count += entry.locals_count;
  json.begin_object();
  json.member("links", static_cast<uint64_t>(report.links.size() + report.links_left_out));
  json.member("links_up", up_count).member("streams", streams_count).member("locals", locals_count);
  json.member("links_left_out", static_cast<uint64_t>(report.links_left_out));
  json.member("entries_left_out", static_cast<uint64_t>(report.entries_left_out));
  json.end_object();
}

template <class T>
void add_bounded(std::vector<T>& items, std::size_t max, std::size_t& left_out, T item) {
  if (items.size() < max) {
    items.push_back(std::move(item));
  } else {
    left_out++;
  }
}

}  // namespace

void StatusReport::add(LinkReport link) {
  add_bounded(links, kLinksMax, links_left_out, std::move(link));
}

void StatusReport::add(EntryReport entry) {
  add_bounded(entries, kEntriesMax, entries_left_out, std::move(entry));
}

std::string status_json(const StatusReport& report) {
  std::string out;
  json::Writer json(out);
  json.begin_object();
  json.member("program", report.program).member("version", report.version).member("pid", report.pid);
  if (!report.agent.empty()) json.member("agent", report.agent);
  json.member("started_at", report.started_at_s);
  json.member("uptime_seconds", (report.now_us - report.started_us) / kSecond_us);
  json.member("stopping", report.is_stopping);
  json.key("links").begin_array();
  for (const LinkReport& link : report.links) write_link(json, link, report.now_us);
  json.end_array();
  json.key("entries").begin_array();
  for (const EntryReport& entry : report.entries) write_entry(json, entry);
  json.end_array();
  json.key("totals");
  write_totals(json, report);
  json.key("counters").begin_object();
  for (const auto& [name, value] : report.counters) json.member(name, value);
  json.end_object();
  json.end_object();
  out += '\n';
  return out;
}

}  // namespace tmesh::session
