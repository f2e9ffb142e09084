#include "cpp/session/status_text.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "cpp/base/json.hpp"
#include "cpp/base/text_table.hpp"

namespace tmesh::session {
namespace {

using Lines = std::vector<std::vector<std::string>>;

// A megabyte is what a report has at most (status_report.hpp); agent names may be escaped.
constexpr json::Limits kLimits{8, std::size_t{8} << 20};

std::string text_of(json::Value object, const char* name) {
  return printable(object.get(name).as_string().value_or(""));
}

int64_t number_of(json::Value object, const char* name) {
  return object.get(name).as_int().value_or(0);
}

std::string count_of(json::Value object, const char* name) {
  return std::to_string(number_of(object, name));
}

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

std::string last_error(json::Value error) {
  if (!error.is_object()) return "-";
  std::string out = text_of(error, "stage") + " " + text_of(error, "code");
  if (const int64_t status = number_of(error, "http_status"); status != 0)
    out += " " + std::to_string(status);
  out += ", " + short_age(number_of(error, "seconds_ago")) + " ago";
  if (const std::string hint = text_of(error, "text"); !hint.empty()) out += ": " + hint;
  return out;
}

std::string links_table(json::Value links) {
  bool has_agents = false;
  for (const json::Value link : links) has_agents = has_agents || link.get("agent");
  Lines lines;
  lines.push_back({"SLOT", "STATE", "UP", "OPENS", "RTT", "STREAMS", "DRAINING", "RECONNECTS", "LAST ERROR"});
  if (has_agents) lines.back().insert(lines.back().begin(), "AGENT");
  for (const json::Value link : links) {
    std::string draining = count_of(link, "draining_streams");
    if (const int64_t old = number_of(link, "draining_links"); old != 0) {
      draining += " on " + std::to_string(old);
    } else {
      draining = "-";
    }
    const std::string mode = text_of(link, "open_mode");
    lines.push_back({count_of(link, "slot"), text_of(link, "state"),
                     mode.empty() ? "-" : short_age(number_of(link, "up_seconds")), or_dash(mode),
                     short_time(static_cast<uint64_t>(std::max<int64_t>(number_of(link, "rtt_us"), 0))),
                     count_of(link, "streams"), draining, count_of(link, "reconnects"),
                     last_error(link.get("last_error"))});
    if (has_agents) lines.back().insert(lines.back().begin(), text_of(link, "agent"));
  }
  return text_table(lines);
}

std::string entries_table(json::Value entries) {
  bool has_drops = false;
  for (const json::Value entry : entries) has_drops = has_drops || number_of(entry, "dropped") != 0;
  Lines lines;
  lines.push_back({"ENTRY", "PROTOCOL", "LISTEN", "LOCALS", "ACCEPTED", "OPENS", "REFUSED"});
  if (has_drops) lines.back().push_back("DROPPED");
  for (const json::Value entry : entries) {
    lines.push_back({text_of(entry, "name"), text_of(entry, "protocol"), text_of(entry, "listen"),
                     count_of(entry, "locals"), count_of(entry, "accepted"), count_of(entry, "opens"),
                     count_of(entry, "refused")});
    if (has_drops) lines.back().push_back(count_of(entry, "dropped"));
  }
  return text_table(lines);
}

}  // namespace

std::string short_time(uint64_t us) {
  if (us == 0) return "-";
  // The loop looks at its clock once a millisecond: anything finer would be made up.
  if (us < 1000) return "<1ms";
  char text[32];
  if (us < 1'000'000) {
    (void)std::snprintf(text, sizeof text, "%.1fms", static_cast<double>(us) / 1e3);
  } else {
    (void)std::snprintf(text, sizeof text, "%.1fs", static_cast<double>(us) / 1e6);
  }
  return text;
}

std::string short_age(int64_t seconds) {
  char text[48];
  const long long s = std::max<int64_t>(seconds, 0);
  if (s < 60) {
    (void)std::snprintf(text, sizeof text, "%llds", s);
  } else if (s < 3600) {
    (void)std::snprintf(text, sizeof text, "%lldm%02llds", s / 60, s % 60);
  } else if (s < 86'400) {
    (void)std::snprintf(text, sizeof text, "%lldh%02lldm", s / 3600, s / 60 % 60);
  } else {
    (void)std::snprintf(text, sizeof text, "%lldd%02lldh", s / 86'400, s / 3600 % 24);
  }
  return text;
}

Result<std::string> status_text(std::string_view document) {
  const Result<json::Document> parsed = json::parse(document, kLimits);
  if (!parsed) return std::unexpected(parsed.error());
  const json::Value root = parsed->root();
  if (!root.get("program").as_string() || !root.get("links").is_array())
    return fail(TMESH_E_INVALID, "not a status document");
  std::string out = text_of(root, "program") + " " + text_of(root, "version") + ", pid " +
                    count_of(root, "pid") + ", up " + short_age(number_of(root, "uptime_seconds"));
  if (root.get("agent")) out += ", agent " + text_of(root, "agent");
  if (root.get("stopping").as_bool().value_or(false)) out += ", stopping";
  const json::Value totals = root.get("totals");
  out += "\nlinks " + count_of(totals, "links_up") + " of " + count_of(totals, "links") + " up, streams " +
         count_of(totals, "streams") + "\n\n" + links_table(root.get("links"));
  if (root.get("entries").size() != 0) out += "\n" + entries_table(root.get("entries"));
  if (const int64_t n = number_of(root.get("counters"), "datagrams_dropped"); n != 0)
    out += "datagrams dropped: " + std::to_string(n) + "\n";
  for (const char* name : {"links_left_out", "entries_left_out"}) {
    if (const int64_t n = number_of(totals, name); n != 0)
      out += std::string(name[0] == 'l' ? "links" : "entries") + " not shown: " + std::to_string(n) + "\n";
  }
  return out;
}

}  // namespace tmesh::session
