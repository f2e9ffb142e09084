#include "cpp/server/admin_service.hpp"

#include <algorithm>

#include "cpp/base/parse.hpp"
#include "cpp/base/utf8.hpp"
#include "cpp/server/ids.hpp"
#include "cpp/server/token_hash.hpp"
#include "cpp/storage/agent_repository.hpp"
#include "cpp/storage/audit_repository.hpp"
#include "cpp/storage/policy_repository.hpp"
#include "cpp/storage/token_repository.hpp"
#include "cpp/storage/user_repository.hpp"

namespace tmesh::server {
namespace {

bool is_username_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-';
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

}  // namespace

Result<void> check_username(std::string_view username) {
  if (username.size() < 3 || username.size() > 64 || !std::ranges::all_of(username, is_username_char)) {
    return fail(TMESH_E_INVALID, "a user name has 3 to 64 letters, digits, '.', '_' or '-'");
  }
  return {};
}

Result<void> check_agent_name(std::string_view name) {
  constexpr size_t name_bytes_max = 255;
  const bool is_good = !name.empty() && name.size() <= name_bytes_max && utf8_valid(name) &&
                       trim(name).size() == name.size() && std::ranges::none_of(name, is_control);
  if (!is_good)
    return fail(TMESH_E_INVALID, "an agent name has 1 to 255 printable bytes, and no space at an end");
  return {};
}

AdminService::AdminService(storage::Transaction& tx, int64_t now_us, std::string actor_user_id)
    : tx_(tx), now_(storage::format_timestamp(now_us)), actor_user_id_(std::move(actor_user_id)) {}

Result<void> AdminService::audit(std::string_view action, std::string_view resource_type,
                                 std::string_view resource_id) {
  storage::AuditRecord entry;
  entry.id = new_id("audit");
  entry.actor_user_id = actor_user_id_;
  entry.action = action;
  entry.resource_type = resource_type;
  entry.resource_id = resource_id;
  entry.details = actor_user_id_.empty() ? R"({"source":"command line"})" : "{}";
  entry.created_at = now_;
  return storage::AuditRepository::append(tx_, entry);
}

Result<storage::UserRecord> AdminService::create_user(std::string_view username, std::string_view role,
                                                      std::string_view password_hash) {
  if (Result<void> good = check_username(username); !good) return std::unexpected(good.error());
  if (role != "admin" && role != "user") return fail(TMESH_E_INVALID, "a role is admin or user");
  Result<std::optional<storage::UserRecord>> taken =
      storage::UserRepository(tx_.db()).find_by_username(username);
  if (!taken) return std::unexpected(taken.error());
  if (*taken) return fail(TMESH_E_STATE, "the user name is taken (names of deleted users stay taken)");
  storage::UserRecord user;
  user.id = new_id("user");
  user.username = username;
  user.role = role;
  user.password_hash = password_hash;
  user.created_at = now_;
  user.updated_at = now_;
  if (Result<void> done = storage::UserRepository::create(tx_, user); !done)
    return std::unexpected(done.error());
  if (Result<void> done = audit("user.create", "user", user.id); !done) return std::unexpected(done.error());
  return user;
}

Result<void> AdminService::keep_an_admin(const storage::UserRecord& user) {
  if (user.role != "admin" || user.is_disabled || !user.deleted_at.empty()) return {};
  const Result<int64_t> admins = storage::UserRepository(tx_.db()).count_active_admins();
  if (!admins) return std::unexpected(admins.error());
  if (*admins <= 1) return fail(TMESH_E_STATE, "this is the last administrator");
  return {};
}

Result<void> AdminService::set_user_disabled(const storage::UserRecord& user, bool is_disabled) {
  if (is_disabled) {
    if (Result<void> good = keep_an_admin(user); !good) return good;
  }
  if (Result<void> done = storage::UserRepository::set_disabled(tx_, user.id, is_disabled, now_); !done)
    return done;
  return audit(is_disabled ? "user.disable" : "user.enable", "user", user.id);
}

Result<void> AdminService::delete_user(const storage::UserRecord& user) {
  if (Result<void> good = keep_an_admin(user); !good) return good;
  if (Result<void> done = storage::UserRepository::mark_deleted(tx_, user.id, now_); !done) return done;
  return audit("user.delete", "user", user.id);
}

Result<storage::AgentRecord> AdminService::create_agent(std::string_view name,
                                                        const storage::UserRecord& owner) {
  if (Result<void> good = check_agent_name(name); !good) return std::unexpected(good.error());
  storage::AgentRecord agent;
  agent.id = new_agent_id();
  agent.name = name;
  agent.owner_user_id = owner.id;
  agent.created_at = now_;
  agent.updated_at = now_;
  if (Result<void> done = storage::AgentRepository::create(tx_, agent); !done)
    return std::unexpected(done.error());
  if (Result<void> done = audit("agent.create", "agent", agent.id); !done)
    return std::unexpected(done.error());
  return agent;
}

Result<void> AdminService::set_agent_enabled(const storage::AgentRecord& agent, bool is_enabled) {
  if (Result<void> done = storage::AgentRepository::set_enabled(tx_, agent.id, is_enabled, now_); !done)
    return done;
  return audit(is_enabled ? "agent.enable" : "agent.disable", "agent", agent.id);
}

Result<void> AdminService::delete_agent(const storage::AgentRecord& agent) {
  if (Result<void> done = storage::AgentRepository::remove(tx_, agent.id, now_); !done) return done;
  return audit("agent.delete", "agent", agent.id);
}

Result<storage::PolicyRecord> AdminService::create_policy(std::string_view agent_id,
                                                          const TargetPattern& pattern,
                                                          std::string_view protocol) {
  std::optional<std::string> known = normalize_protocol(protocol);
  if (!known) return fail(TMESH_E_INVALID, "a protocol is tcp, udp, http or ws");
  storage::PolicyRecord policy;
  policy.id = new_id("policy");
  policy.agent_id = agent_id;
  policy.target_host = pattern.target_host;
  policy.target_port = pattern.target_port;
  policy.protocol = std::move(*known);
  policy.allowed_ports = pattern.allowed_ports;
  policy.created_at = now_;
  policy.updated_at = now_;
  if (Result<void> done = storage::PolicyRepository::create(tx_, policy); !done)
    return std::unexpected(done.error());
  if (Result<void> done = audit("policy.create", "policy", policy.id); !done)
    return std::unexpected(done.error());
  return policy;
}

Result<void> AdminService::delete_policy(const storage::PolicyRecord& policy) {
  if (Result<void> done = storage::PolicyRepository::remove(tx_, policy.id, now_); !done) return done;
  return audit("policy.delete", "policy", policy.id);
}

CreatedToken AdminService::blank_token() const {
  CreatedToken made{{}, new_token_secret()};
  made.token.id = new_token_id();
  made.token.token_prefix = token_display_prefix(made.secret);
  made.token.token_hash = digest_token(made.secret.reveal()).hex;
  made.token.created_at = now_;
  made.token.updated_at = now_;
  return made;
}

Result<CreatedToken> AdminService::create_token(const NewToken& wanted) {
  if (wanted.type == TokenType::agent && wanted.agent_id.empty())
    return fail(TMESH_E_INVALID, "an agent token needs an agent");
  CreatedToken made = blank_token();
  made.token.token_type = token_type_name(wanted.type);
  made.token.owner_user_id = wanted.owner_user_id;
  made.token.agent_id = wanted.agent_id;
  made.token.scope = format_scope(wanted.scope);
  if (wanted.expires_at_us) made.token.expires_at = storage::format_timestamp(*wanted.expires_at_us);
  if (Result<void> done = storage::TokenRepository::create(tx_, made.token); !done)
    return std::unexpected(done.error());
  if (Result<void> done = audit("token.create", "token", made.token.id); !done)
    return std::unexpected(done.error());
  return made;
}

Result<void> AdminService::revoke_token(const storage::TokenRecord& token) {
  if (!token.revoked_at.empty()) return fail(TMESH_E_STATE, "the token is already revoked");
  if (Result<void> done = storage::TokenRepository::revoke(tx_, token.id, now_); !done) return done;
  return audit("token.revoke", "token", token.id);
}

Result<CreatedToken> AdminService::rotate_token(const storage::TokenRecord& token) {
  if (!token.revoked_at.empty()) return fail(TMESH_E_STATE, "the token is already revoked");
  CreatedToken made = blank_token();
  made.token.token_type = token.token_type;
  made.token.owner_user_id = token.owner_user_id;
  made.token.agent_id = token.agent_id;
  made.token.node_id = token.node_id;
  made.token.scope = token.scope;
  made.token.expires_at = token.expires_at;
  if (Result<void> done = storage::TokenRepository::rotate(tx_, token.id, made.token); !done)
    return std::unexpected(done.error());
  if (Result<void> done = audit("token.rotate", "token", token.id); !done)
    return std::unexpected(done.error());
  return made;
}

}  // namespace tmesh::server
