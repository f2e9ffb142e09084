// node
#include "cpp/server/admin_context.hpp"
#include "cpp/server/node_service.hpp"
#include "cpp/storage/lease_repository.hpp"
#include "cpp/storage/node_repository.hpp"
#include "cpp/storage/timestamp.hpp"

namespace tmesh::server {
namespace {

using storage::NodeRecord;

AdminRow describe(const NodeRecord& node, const storage::LeaseTotals& totals, int64_t now_us) {
  return {{"id", node.id},
          {"name", node.name},
          {"address", node.address},
          {"status", std::string(node_status_name(node, now_us))},
          {"epoch", node.epoch},
          {"activeConnections", totals.connections_count},
          {"activeStreams", totals.streams_count},
          {"lastSeenAt", admin_text(node.last_seen_at)},
          {"expiresAt", admin_text(node.expires_at)},
          {"enabled", node.is_enabled},
          {"deletedAt", admin_text(node.deleted_at)},
          {"createdAt", admin_text(node.created_at)},
          {"updatedAt", admin_text(node.updated_at)}};
}

AdminFound<std::vector<AdminRow>> describe_all(const AdminContext& context,
                                               const std::vector<NodeRecord>& nodes) {
  std::vector<AdminRow> rows;
  storage::LeaseRepository leases(context.db);
  const std::string now = storage::format_timestamp(context.now_us);
  for (const NodeRecord& node : nodes) {
    const std::string ids[] = {node.id};
    Result<std::vector<storage::LeaseTotals>> totals = leases.totals(ids, now);
    if (!totals) return admin_failure(totals.error());
    rows.push_back(
        describe(node, totals->empty() ? storage::LeaseTotals{} : totals->front(), context.now_us));
  }
  return rows;
}

AdminResult print_node(const AdminContext& context, const NodeRecord& node) {
  AdminFound<std::vector<AdminRow>> rows = describe_all(context, {node});
  if (!rows) return std::unexpected(rows.error());
  context.print(rows->front());
  return {};
}

AdminResult list_nodes(const AdminContext& context) {
  const auto fetch = [&](const storage::PageRequest& page) {
    return storage::NodeRepository(context.db).list(page);
  };
  AdminFound<std::vector<NodeRecord>> nodes = context.all<NodeRecord>(fetch);
  if (!nodes) return std::unexpected(nodes.error());
  AdminFound<std::vector<AdminRow>> rows = describe_all(context, *nodes);
  if (!rows) return std::unexpected(rows.error());
  context.print(*rows);
  return {};
}

AdminResult change_node(const AdminContext& context) {
  const std::string& verb = context.request.verb;
  AdminFound<NodeRecord> changed = context.change([&](NodeService service) -> Result<NodeRecord> {
    Result<std::optional<NodeRecord>> found = service.find(context.argument());
    if (!found) return std::unexpected(found.error());
    if (!found->has_value()) return fail(TMESH_E_STATE, "there is no such server");
    NodeRecord node = std::move(**found);
    Result<void> done;
    if (verb == "update") done = service.rename(node, context.option("name").value_or(""));
    if (verb == "enable" || verb == "disable") done = service.set_enabled(node, verb == "enable");
    if (verb == "delete") done = service.remove(node);
    if (verb == "restore") done = service.restore(node);
    if (!done) return std::unexpected(done.error());
    return node;
  });
  if (!changed) return std::unexpected(changed.error());
  return print_node(context, *changed);
}

}  // namespace

AdminResult run_node_command(const AdminContext& context) {
  if (context.request.verb == "list") return list_nodes(context);
  if (context.request.verb != "show") return change_node(context);
  Result<std::optional<NodeRecord>> node = storage::NodeRepository(context.db).find(context.argument());
  if (!node) return admin_failure(node.error());
  if (!node->has_value()) return admin_failure("there is no such server");
  return print_node(context, **node);
}

}  // namespace tmesh::server
