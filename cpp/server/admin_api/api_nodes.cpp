#include "cpp/server/admin_api/api_nodes.hpp"

#include <algorithm>

#include "cpp/server/node_service.hpp"
#include "cpp/storage/lease_repository.hpp"
#include "cpp/storage/node_repository.hpp"
#include "cpp/storage/timestamp.hpp"

namespace tmesh::server {
namespace {

using storage::LeaseTotals;
using storage::NodeRecord;

ApiFound<std::vector<LeaseTotals>> totals_of(ApiCall& call, std::span<const NodeRecord> nodes) {
  std::vector<std::string> ids;
  for (const NodeRecord& node : nodes) ids.push_back(node.id);
  Result<std::vector<LeaseTotals>> totals =
      storage::LeaseRepository(call.db).totals(ids, storage::format_timestamp(call.now_us));
  if (!totals) return api_database_error(totals.error());
  return std::move(*totals);
}

void write_node(json::Writer& out, const NodeRecord& node, std::span<const LeaseTotals> all, int64_t now_us) {
  const auto found = std::ranges::find(all, node.id, &LeaseTotals::server_node_id);
  const LeaseTotals totals = found == all.end() ? LeaseTotals{} : *found;
  out.begin_object()
      .member("id", node.id)
      .member("name", node.name)
      .member("address", node.address)
      .member("epoch", node.epoch)
      .member("enabled", node.is_enabled);
  member_or_null(out, "deletedAt", node.deleted_at);
  member_or_null(out, "lastSeenAt", node.last_seen_at);
  member_or_null(out, "expiresAt", node.expires_at);
  out.member("status", node_status_name(node, now_us))
      .member("activeConnections", totals.connections_count)
      .member("activeStreams", totals.streams_count)
      .member("healthScore", totals.health_score)
      .member("createdAt", node.created_at)
      .member("updatedAt", node.updated_at)
      .end_object();
}

ApiResult node_reply(ApiCall& call, const NodeRecord& node) {
  ApiFound<std::vector<LeaseTotals>> totals = totals_of(call, std::span(&node, 1));
  if (!totals) return std::unexpected(totals.error());
  ApiReply reply;
  reply.data.clear();
  json::Writer out(reply.data);
  write_node(out, node, *totals, call.now_us);
  return reply;
}

ApiFound<NodeRecord> find_node(ApiCall& call) {
  Result<std::optional<NodeRecord>> found = storage::NodeRepository(call.db).find(call.path.front());
  if (!found) return api_database_error(found.error());
  if (!found->has_value()) return api_error(404, "there is no such server");
  return std::move(**found);
}

// Runs `work(NodeService&, NodeRecord&) -> Result<void>` on the node of the path.
template <class Work>
ApiResult change_node(ApiCall& call, Work work) {
  ApiFound<NodeRecord> node = find_node(call);
  if (!node) return std::unexpected(node.error());
  NodeService service(*call.change);
  if (Result<void> done = work(service, *node); !done) return api_error(done.error());
  return node_reply(call, *node);
}

}  // namespace

ApiResult list_server_nodes(ApiCall& call) {
  ApiFound<storage::PageRequest> request = page_request(call);
  if (!request) return std::unexpected(request.error());
  Result<storage::Page<NodeRecord>> page = storage::NodeRepository(call.db).list(*request);
  if (!page) return api_database_error(page.error());
  ApiFound<std::vector<LeaseTotals>> totals = totals_of(call, page->items);
  if (!totals) return std::unexpected(totals.error());
  ApiReply reply;
  reply.data = page_json(
      *page, [&](json::Writer& out, const NodeRecord& node) { write_node(out, node, *totals, call.now_us); });
  return reply;
}

ApiResult show_server_node(ApiCall& call) {
  ApiFound<NodeRecord> node = find_node(call);
  if (!node) return std::unexpected(node.error());
  return node_reply(call, *node);
}

ApiResult update_server_node(ApiCall& call) {
  const auto name = body_text(call, "name");
  if (!name) return std::unexpected(name.error());
  const auto enabled = body_bool(call, "enabled");
  if (!enabled) return std::unexpected(enabled.error());
  if (!*name && !*enabled) return api_error(400, "name or enabled is expected");
  return change_node(call, [&](NodeService& service, NodeRecord& node) -> Result<void> {
    if (*name) {
      if (Result<void> done = service.rename(node, **name); !done) return done;
    }
    return *enabled ? service.set_enabled(node, **enabled) : Result<void>();
  });
}

ApiResult delete_server_node(ApiCall& call) {
  return change_node(call, [](NodeService& service, NodeRecord& node) { return service.remove(node); });
}

ApiResult restore_server_node(ApiCall& call) {
  return change_node(call, [](NodeService& service, NodeRecord& node) { return service.restore(node); });
}

}  // namespace tmesh::server
