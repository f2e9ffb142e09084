// /agents/{id}/connections and /metadata, /dashboard/summary, and the table with /server-nodes.
//
// Whether an agent is connected follows from leases and live links, how fresh its report is
// from the report; neither is guessed from the other (LESSONS R15, R17).
#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "cpp/base/parse.hpp"
#include "cpp/server/admin_api/api.hpp"
#include "cpp/server/admin_api/api_nodes.hpp"
#include "cpp/server/agent_report.hpp"
#include "cpp/server/node_service.hpp"
#include "cpp/storage/agent_repository.hpp"
#include "cpp/storage/lease_repository.hpp"
#include "cpp/storage/metadata_repository.hpp"
#include "cpp/storage/node_repository.hpp"
#include "cpp/storage/summary_repository.hpp"
#include "cpp/storage/timestamp.hpp"

namespace tmesh::server {
namespace {

using storage::LeaseRecord;
using storage::MetadataRecord;
using storage::NodeRecord;

constexpr int64_t healthy_score_min = 50;

// The agent of the path; 404 also for somebody else's.
ApiFound<storage::AgentRecord> agent_of(ApiCall& call) {
  Result<std::optional<storage::AgentRecord>> found =
      storage::AgentRepository(call.db).find(call.path.front());
  if (!found) return api_database_error(found.error());
  const bool is_visible =
      found->has_value() && (call.is_admin() || (*found)->owner_user_id == call.caller.id);
  if (!is_visible) return api_error(404, "there is no such agent");
  return std::move(**found);
}

// The text is in the past, or malformed.
bool is_past(const std::string& text, int64_t now_us) {
  const std::optional<int64_t> at_us = storage::parse_timestamp(text);
  return !at_us || *at_us <= now_us;
}

// ---- connections ----

struct Connection {
  LeaseRecord lease;
  const LiveAgentLink* live = nullptr;  // a link of this server
  std::string server_address;
  bool is_server_online = false;
};

const LiveAgentLink* live_of(const ApiCall& call, std::string_view connection_id) {
  const auto found = std::ranges::find(call.live, connection_id, &LiveAgentLink::connection_id);
  return found == call.live.end() ? nullptr : &*found;
}

// Leases of all servers that have not expired; of this one only what its own registry
// confirms, and also links whose lease is still to be written.
ApiFound<std::vector<Connection>> connections_of(ApiCall& call, const std::string& agent_id) {
  Result<std::vector<LeaseRecord>> leases = storage::LeaseRepository(call.db).of_agent(agent_id);
  if (!leases) return api_database_error(leases.error());
  std::vector<Connection> connections;
  for (LeaseRecord& lease : *leases) {
    const bool is_here = lease.server_node_id == call.node_id;
    if (is_here || is_past(lease.expires_at, call.now_us)) continue;
    if (live_of(call, lease.connection_id) != nullptr) continue;
    connections.push_back({std::move(lease), nullptr, "", false});
  }
  for (const LiveAgentLink& link : call.live) {
    Connection& here = connections.emplace_back();
    here.live = &link;
    const auto lease = std::ranges::find_if(*leases, [&](const LeaseRecord& row) {
      return row.connection_id == link.connection_id && row.connection_epoch == link.epoch &&
             row.server_node_id == call.node_id;
    });
    if (lease != leases->end()) here.lease = *lease;
    here.lease.connection_id = link.connection_id;
    here.lease.server_node_id = call.node_id;
  }
  std::ranges::sort(connections, {}, [](const Connection& c) { return c.lease.connection_id; });
  for (Connection& connection : connections) {
    Result<std::optional<NodeRecord>> node =
        storage::NodeRepository(call.db).find(connection.lease.server_node_id);
    if (!node) return api_database_error(node.error());
    if (!node->has_value()) continue;
    connection.server_address = (*node)->address;
    connection.is_server_online = std::string_view(node_status_name(**node, call.now_us)) == "online";
    if (connection.lease.epoch == 0) connection.lease.epoch = (*node)->epoch;
  }
  return connections;
}

void write_connection(json::Writer& out, const Connection& connection, const std::string& agent_id) {
  const LeaseRecord& lease = connection.lease;
  const LiveAgentLink* live = connection.live;
  const int64_t score = live != nullptr ? live->health_score : lease.health_score;
  const bool is_reachable = live != nullptr || connection.is_server_online;
  const int64_t streams = live != nullptr ? static_cast<int64_t>(live->streams_count) : lease.active_streams;
  out.begin_object()
      .member("agentId", agent_id)
      .member("instanceId", live != nullptr ? live->instance_id : lease.instance_id)
      .member("connectionId", lease.connection_id)
      .member("connectionEpoch", live != nullptr ? live->epoch : lease.connection_epoch)
      .member("serverNodeId", lease.server_node_id)
      .member("serverNodeEpoch", lease.epoch)
      .member("serverNodeAddress", connection.server_address)
      .member("healthy", is_reachable && score >= healthy_score_min)
      .member("activeStreams", streams)
      .member("healthScore", score);
  if (live == nullptr) {
    member_or_null(out, "lastHeartbeatAt", lease.updated_at);
  } else if (live->last_heard_at_us != 0) {
    out.member("lastHeartbeatAt", storage::format_timestamp(live->last_heard_at_us));
  }
  if (live != nullptr && live->rtt_us != 0) out.member("rttUs", live->rtt_us);
  member_or_null(out, "leaseExpiresAt", lease.expires_at);
  out.member("local", live != nullptr).end_object();
}

void write_connections(json::Writer& out, const std::vector<Connection>& connections,
                       const std::string& agent_id) {
  out.key("connections").begin_array();
  for (const Connection& connection : connections) write_connection(out, connection, agent_id);
  out.end_array();
}

ApiResult list_connections(ApiCall& call) {
  ApiFound<storage::AgentRecord> agent = agent_of(call);
  if (!agent) return std::unexpected(agent.error());
  ApiFound<std::vector<Connection>> connections = connections_of(call, agent->id);
  if (!connections) return std::unexpected(connections.error());
  ApiReply reply;
  reply.data.clear();
  json::Writer out(reply.data);
  out.begin_object();
  write_connections(out, *connections, agent->id);
  out.end_object();
  return reply;
}

ApiFound<int64_t> epoch_of(const ApiCall& call) {
  const auto text = call.query_value("connectionEpoch");
  const Result<uint64_t> epoch = parse_uint(text.value_or(""));
  if (!epoch || *epoch == 0 || *epoch > static_cast<uint64_t>(INT64_MAX))
    return api_error(400, "connectionEpoch: a positive whole number is expected");
  return static_cast<int64_t>(*epoch);
}

std::string closed_json(const ApiCall& call, int64_t epoch, bool is_closed) {
  std::string text;
  json::Writer out(text);
  out.begin_object()
      .member("agentId", call.path[0])
      .member("connectionId", call.path[1])
      .member("connectionEpoch", epoch)
      .member("closed", is_closed)
      .end_object();
  return text;
}

ApiResult close_connection(ApiCall& call) {
  const ApiFound<int64_t> epoch = epoch_of(call);
  if (!epoch) return std::unexpected(epoch.error());
  ApiFound<storage::AgentRecord> agent = agent_of(call);
  if (!agent) return std::unexpected(agent.error());
  const std::string& connection_id = call.path[1];
  Result<std::vector<LeaseRecord>> leases = storage::LeaseRepository(call.db).of_agent(agent->id);
  if (!leases) return api_database_error(leases.error());
  const auto lease = std::ranges::find(*leases, connection_id, &LeaseRecord::connection_id);
  const LiveAgentLink* live = live_of(call, connection_id);
  const bool is_elsewhere = live == nullptr && lease != leases->end() &&
                            lease->server_node_id != call.node_id && !is_past(lease->expires_at, call.now_us);
  const int64_t current = live != nullptr ? live->epoch : is_elsewhere ? lease->connection_epoch : *epoch;
  if (current != *epoch) return api_error(409, "connectionEpoch: the connection has another epoch now");
  // Its lease stays: whoever holds the link goes on renewing it.
  if (is_elsewhere) return api_error(503, "the connection is on another server, which cannot be reached");
  if (live != nullptr) {
    std::string details;
    json::Writer(details)
        .begin_object()
        .member("connectionId", connection_id)
        .member("connectionEpoch", *epoch)
        .end_object();
    Result<void> noted = call.change->audit("agent.connection.close", "agent", agent->id, details);
    if (!noted) return api_database_error(noted.error());
  }
  ApiReply reply;
  reply.data = closed_json(call, *epoch, false);
  return reply;
}

// A link that ended by itself meanwhile is a success as well. Its lease goes with the link.
void after_close(ApiLive& live, const ApiCall& call, ApiResult& result) {
  if (!result) return;
  const ApiFound<int64_t> epoch = epoch_of(call);
  if (!epoch) return;
  const bool is_closed = live.close_agent_link(call.path[0], call.path[1], *epoch);
  result->data = closed_json(call, *epoch, is_closed);
}

// ---- metadata ----

void write_report(json::Writer& out, const MetadataRecord& report, bool is_stale) {
  out.member("instanceId", report.instance_id)
      .member("nodeId", report.node_id)
      .member("epoch", report.epoch)
      .member("revision", report.revision)
      .member("stale", is_stale);
  member_or_null(out, "reportedAt", report.reported_at);
  member_or_null(out, "lastSeenAt", report.last_seen_at);
  member_or_null(out, "updatedAt", report.updated_at);
  append_report_lists(report.metadata, out);
}

ApiResult show_metadata(ApiCall& call) {
  bool includes_stale = false;
  if (const auto text = call.query_value("includeStale")) {
    const Result<bool> value = parse_bool(*text);
    if (!value) return api_error(400, "includeStale: true or false is expected");
    includes_stale = *value;
  }
  ApiFound<storage::AgentRecord> agent = agent_of(call);
  if (!agent) return std::unexpected(agent.error());
  Result<std::vector<MetadataRecord>> reports = storage::MetadataRepository(call.db).of_agent(agent->id);
  if (!reports) return api_database_error(reports.error());
  // Stale is also what nobody was there to mark; it goes behind the fresh ones.
  std::vector<MetadataRecord> sorted;
  for (MetadataRecord& report : *reports) {
    report.is_stale =
        report.is_stale || (!report.expires_at.empty() && is_past(report.expires_at, call.now_us));
    if (!report.is_stale) sorted.push_back(report);
  }
  std::ranges::copy_if(*reports, std::back_inserter(sorted), &MetadataRecord::is_stale);
  const bool is_stale = !sorted.empty() && sorted.front().is_stale;
  if (is_stale && !includes_stale)
    return api_error(404, "the agent's metadata is stale: includeStale=true shows it");
  ApiFound<std::vector<Connection>> connections = connections_of(call, agent->id);
  if (!connections) return std::unexpected(connections.error());

  ApiReply reply;
  reply.data.clear();
  json::Writer out(reply.data);
  out.begin_object().member("agentId", agent->id);
  write_report(out, sorted.empty() ? MetadataRecord{} : sorted.front(), is_stale);
  out.key("instances").begin_array();
  for (const MetadataRecord& report : sorted) {
    if (report.is_stale && !includes_stale) break;
    out.begin_object();
    write_report(out, report, report.is_stale);
    out.end_object();
  }
  out.end_array();
  write_connections(out, *connections, agent->id);
  out.end_object();
  return reply;
}

// ---- summary ----

ApiResult show_summary(ApiCall& call) {
  const bool is_all = call.is_admin();
  Result<storage::Summary> summary =
      storage::read_summary(call.db, is_all ? "" : call.caller.id, storage::format_timestamp(call.now_us));
  if (!summary) return api_database_error(summary.error());
  const storage::Summary& s = *summary;
  ApiReply reply;
  reply.data.clear();
  json::Writer out(reply.data);
  out.begin_object().member("scope", is_all ? "all" : "own");
  out.key("agents")
      .begin_object()
      .member("total", s.agents_count)
      .member("enabled", s.agents_enabled_count)
      .member("online", s.agents_online_count)
      .end_object();
  out.key("connections")
      .begin_object()
      .member("total", s.connections_count)
      .member("activeStreams", s.streams_count)
      .end_object();
  out.key("policies").begin_object().member("total", s.policies_count).end_object();
  out.key("tokens")
      .begin_object()
      .member("total", s.tokens_count)
      .member("live", s.tokens_live_count)
      .end_object();
  if (is_all) {
    out.key("users")
        .begin_object()
        .member("total", s.users_count)
        .member("disabled", s.users_disabled_count)
        .end_object();
    out.key("serverNodes")
        .begin_object()
        .member("total", s.nodes_count)
        .member("online", s.nodes_online_count)
        .end_object();
  }
  out.end_object();
  return reply;
}

constexpr const char* epoch_query[] = {"connectionEpoch"};
constexpr const char* stale_query[] = {"includeStale"};
constexpr const char* node_members[] = {"name", "enabled"};

using http::Method;
constexpr ApiRoute routes[] = {
    {.method = Method::get,
     .path = "/agents/{id}/metadata",
     .who = ApiWho::user,
     .run = &show_metadata,
     .query_names = stale_query,
     .needs_live = true},
    {.method = Method::get,
     .path = "/agents/{id}/connections",
     .who = ApiWho::user,
     .run = &list_connections,
     .needs_live = true},
    {.method = Method::del,
     .path = "/agents/{id}/connections/{cid}",
     .who = ApiWho::user,
     .run = &close_connection,
     .query_names = epoch_query,
     .needs_live = true,
     .after = &after_close},
    {.method = Method::get, .path = "/dashboard/summary", .who = ApiWho::user, .run = &show_summary},
    {.method = Method::get, .path = "/server-nodes", .run = &list_server_nodes, .is_list = true},
    {.method = Method::get, .path = "/server-nodes/{id}", .run = &show_server_node},
    {.method = Method::patch,
     .path = "/server-nodes/{id}",
     .run = &update_server_node,
     .body_members = node_members},
    {.method = Method::del, .path = "/server-nodes/{id}", .run = &delete_server_node},
    {.method = Method::post, .path = "/server-nodes/{id}/restore", .run = &restore_server_node},
};

}  // namespace

std::span<const ApiRoute> presence_routes() {
  return routes;
}

}  // namespace tmesh::server
