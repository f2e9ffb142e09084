#include "cpp/storage/required_schema.hpp"

namespace tmesh::storage {
namespace {

constexpr const char* schema_meta[] = {"id", "version"};
constexpr const char* authorization_revision[] = {"id", "revision", "updated_at"};
constexpr const char* users[] = {"id",       "username",   "role",       "password_hash",
                                 "disabled", "deleted_at", "created_at", "updated_at"};
constexpr const char* agents[] = {"id",      "name",       "owner_user_id", "capabilities",
                                  "enabled", "created_at", "updated_at"};
constexpr const char* agent_policies[] = {"id",        "agent_id",      "target_host",   "target_port",
                                          "protocol",  "allowed_cidrs", "allowed_ports", "created_at",
                                          "updated_at"};
constexpr const char* service_tokens[] = {"id",         "token_type",         "owner_user_id", "agent_id",
                                          "node_id",    "token_prefix",       "token_hash",    "scope",
                                          "expires_at", "revoked_at",         "last_used_at",  "created_at",
                                          "updated_at", "secret_last_read_at"};
constexpr const char* server_nodes[] = {"id", "enabled", "deleted_at", "expires_at"};
constexpr const char* audit_logs[] = {"id",          "actor_user_id", "action",    "resource_type",
                                      "resource_id", "details",       "created_at"};
constexpr const char* agent_instance_metadata[] = {"agent_id", "instance_id"};
constexpr const char* agent_runtime_stats[] = {"id", "agent_id"};
constexpr const char* agent_probe_results[] = {"probe_id", "agent_id"};
constexpr const char* agent_connection_leases[] = {"agent_id", "connection_id"};

constexpr RequiredTable tables[] = {
    {"schema_meta", schema_meta},
    {"authorization_revision", authorization_revision},
    {"users", users},
    {"agents", agents},
    {"agent_policies", agent_policies},
    {"service_tokens", service_tokens},
    {"server_nodes", server_nodes},
    {"audit_logs", audit_logs},
    {"agent_instance_metadata", agent_instance_metadata},
    {"agent_runtime_stats", agent_runtime_stats},
    {"agent_probe_results", agent_probe_results},
    {"agent_connection_leases", agent_connection_leases},
};

constexpr WideColumn wide[] = {
    {"authorization_revision", "revision", "BIGINT UNSIGNED NOT NULL"},
    {"server_nodes", "epoch", "BIGINT NOT NULL DEFAULT 0"},
    {"agent_connection_leases", "epoch", "BIGINT NOT NULL"},
    {"agent_connection_leases", "connection_epoch", "BIGINT NOT NULL"},
    {"agent_instance_metadata", "epoch", "BIGINT NOT NULL"},
    {"agent_instance_metadata", "revision", "BIGINT NOT NULL"},
};

}  // namespace

std::span<const RequiredTable> required_tables() {
  return tables;
}

std::span<const WideColumn> wide_columns() {
  return wide;
}

}  // namespace tmesh::storage
