// Every write that a repository can do, in an order in which all of them succeed, and
// whether it steps the authorisation revision (requirement D6). EveryWriteIsInTheTable reads
// the headers of cpp/storage and fails when one is missing here.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cpp/storage/agent_repository.hpp"
#include "cpp/storage/audit_repository.hpp"
#include "cpp/storage/idempotency_repository.hpp"
#include "cpp/storage/lease_repository.hpp"
#include "cpp/storage/metadata_repository.hpp"
#include "cpp/storage/node_repository.hpp"
#include "cpp/storage/policy_repository.hpp"
#include "cpp/storage/session_repository.hpp"
#include "cpp/storage/token_repository.hpp"
#include "cpp/storage/user_repository.hpp"
#include "tests/contract/records.hpp"

namespace tmesh::test {

using Change = std::function<Result<void>(storage::Transaction&)>;

struct Write {
  const char* function;  // "UserRepository::create"
  int steps;             // of the revision
  Change change;
};

inline storage::LeaseRecord lease_row() {
  storage::LeaseRecord lease{"agent-home", "conn-1", "machine", "instance-1", "server-1"};
  lease.epoch = int64_t{1} << 41;
  lease.connection_epoch = int64_t{1} << 42;
  lease.acquired_at = lease.updated_at = write_time;
  lease.expires_at = "2027-01-15T09:00:30Z";
  return lease;
}
inline storage::MetadataRecord metadata_row() {
  storage::MetadataRecord report{"agent-home", "instance-1", "machine", int64_t{1} << 41, 1};
  report.reported_at = report.last_seen_at = report.updated_at = write_time;
  report.expires_at = "2027-01-15T09:00:30Z";
  return report;
}
inline storage::NodeRecord node_row() {
  storage::NodeRecord node;
  node.id = "server-2";
  node.name = "two";
  node.address = "https://two.example.com";
  node.created_at = node.updated_at = write_time;
  return node;
}

// What a function gives beside success does not matter here.
template <class T>
Result<void> only_errors(const Result<T>& result) {
  if (!result) return std::unexpected(result.error());
  return {};
}

// alice, who owns the agent `home` with one policy, and one client token.
inline std::vector<Change> first_rows() {
  using namespace storage;
  return {[](Transaction& tx) { return UserRepository::create(tx, user_row("alice")); },
          [](Transaction& tx) { return AgentRepository::create(tx, agent_row("home")); },
          [](Transaction& tx) { return PolicyRepository::create(tx, policy_row("one", "agent-home")); },
          [](Transaction& tx) { return TokenRepository::create(tx, token_row("one")); }};
}

inline std::vector<Write> all_writes() {
  using namespace storage;
  using Tx = Transaction;
  constexpr const char* now = write_time;
  constexpr const char* past = "2020-01-01T00:00:00Z";
  const LeaseKey lease{"agent-home", "conn-1", int64_t{1} << 42};
  const MetadataKey report{"agent-home", "instance-1", int64_t{1} << 41, 1};
  const SessionRecord session{"user-session", "user-alice", "hash-of-session", "", "", now};
  const IdempotencyRecord key{"key-one", "user-alice", "{}", 200, now, now};
  return {
      {"UserRepository::create", 0, [](Tx& tx) { return UserRepository::create(tx, user_row("bob")); }},
      {"UserRepository::set_password_hash", 0,
       [](Tx& tx) { return UserRepository::set_password_hash(tx, "user-bob", "other", now); }},
      {"UserRepository::set_username", 0,
       [](Tx& tx) { return UserRepository::set_username(tx, "user-bob", "bobby", now); }},
      {"UserRepository::set_role", 0,
       [](Tx& tx) { return UserRepository::set_role(tx, "user-bob", "admin", now); }},
      {"UserRepository::set_disabled", 1,
       [](Tx& tx) { return UserRepository::set_disabled(tx, "user-bob", true, now); }},
      {"UserRepository::set_disabled", 1,
       [](Tx& tx) { return UserRepository::set_disabled(tx, "user-bob", false, now); }},
      {"UserRepository::mark_deleted", 1,
       [](Tx& tx) { return UserRepository::mark_deleted(tx, "user-bob", now); }},
      {"UserRepository::restore", 1, [](Tx& tx) { return UserRepository::restore(tx, "user-bob", now); }},

      {"AgentRepository::create", 1, [](Tx& tx) { return AgentRepository::create(tx, agent_row("two")); }},
      {"AgentRepository::rename", 0,
       [](Tx& tx) { return AgentRepository::rename(tx, "agent-two", "zwei", now); }},
      {"AgentRepository::set_capabilities", 0,
       [](Tx& tx) {
         return AgentRepository::set_capabilities(tx, "agent-two", "[\"open_result_v1\"]", now);
       }},
      {"AgentRepository::set_enabled", 1,
       [](Tx& tx) { return AgentRepository::set_enabled(tx, "agent-two", false, now); }},
      {"AgentRepository::set_enabled", 1,
       [](Tx& tx) { return AgentRepository::set_enabled(tx, "agent-two", true, now); }},
      {"AgentRepository::set_owner", 1,
       [](Tx& tx) { return AgentRepository::set_owner(tx, "agent-two", "user-bob", now); }},

      {"PolicyRepository::create", 1,
       [](Tx& tx) { return PolicyRepository::create(tx, policy_row("two", "agent-two")); }},
      {"PolicyRepository::update", 1,
       [](Tx& tx) {
         PolicyRecord changed = policy_row("two", "agent-two");
         changed.target_host = "10.0.0.0/8";
         return PolicyRepository::update(tx, changed);
       }},
      {"PolicyRepository::remove", 1, [](Tx& tx) { return PolicyRepository::remove(tx, "policy-two", now); }},
      {"PolicyRepository::create", 1,
       [](Tx& tx) { return PolicyRepository::create(tx, policy_row("three", "agent-two")); }},
      // With its policy: one step.
      {"AgentRepository::remove", 1, [](Tx& tx) { return AgentRepository::remove(tx, "agent-two", now); }},

      {"TokenRepository::create", 1, [](Tx& tx) { return TokenRepository::create(tx, token_row("two")); }},
      {"TokenRepository::touch_last_used", 0,
       [](Tx& tx) { return TokenRepository::touch_last_used(tx, "stok_two", now); }},
      {"TokenRepository::set_sealed_secret", 0,
       [](Tx& tx) { return TokenRepository::set_sealed_secret(tx, "stok_two", {"c", "n", "k", 1}); }},
      {"TokenRepository::touch_secret_read", 0,
       [](Tx& tx) { return TokenRepository::touch_secret_read(tx, "stok_two", now); }},
      {"TokenRepository::set_scope", 1,
       [](Tx& tx) { return TokenRepository::set_scope(tx, "stok_two", "{\"targetPorts\":[443]}", now); }},
      {"TokenRepository::set_expiry", 1,
       [](Tx& tx) { return TokenRepository::set_expiry(tx, "stok_two", "2027-02-01T00:00:00Z", now); }},
      // Revokes one and creates one: one step.
      {"TokenRepository::rotate", 1,
       [](Tx& tx) { return TokenRepository::rotate(tx, "stok_two", token_row("three")); }},
      {"TokenRepository::revoke", 1, [](Tx& tx) { return TokenRepository::revoke(tx, "stok_three", now); }},

      {"NodeRepository::start", 0,
       [](Tx& tx) { return only_errors(NodeRepository::start(tx, "server-1", "https://x", now, now)); }},
      {"NodeRepository::restore_row", 0, [](Tx& tx) { return NodeRepository::restore_row(tx, node_row()); }},
      {"NodeRepository::heartbeat", 0,
       [](Tx& tx) { return only_errors(NodeRepository::heartbeat(tx, "server-2", 0, now, now)); }},
      {"NodeRepository::rename", 0,
       [](Tx& tx) { return NodeRepository::rename(tx, "server-2", "zwei", now); }},
      // Beyond D6: a token may name servers.
      {"NodeRepository::set_enabled", 1,
       [](Tx& tx) { return NodeRepository::set_enabled(tx, "server-2", false, now); }},
      {"NodeRepository::mark_deleted", 1,
       [](Tx& tx) { return NodeRepository::mark_deleted(tx, "server-2", now); }},
      {"NodeRepository::restore", 1, [](Tx& tx) { return NodeRepository::restore(tx, "server-2", now); }},

      {"LeaseRepository::acquire", 0,
       [](Tx& tx) { return only_errors(LeaseRepository::acquire(tx, lease_row(), now)); }},
      {"LeaseRepository::renew", 0,
       [lease](Tx& tx) {
         return only_errors(LeaseRepository::renew(tx, std::span(&lease, 1), "server-1", now, now));
       }},
      {"LeaseRepository::renew_with_load", 0,
       [](Tx& tx) {
         LeaseRecord loaded = lease_row();
         loaded.active_streams = 7;
         return only_errors(LeaseRepository::renew_with_load(tx, loaded, now));
       }},
      {"LeaseRepository::release", 0,
       [lease](Tx& tx) { return only_errors(LeaseRepository::release(tx, lease, "server-1")); }},
      {"LeaseRepository::remove_of_node", 0,
       [](Tx& tx) { return only_errors(LeaseRepository::remove_of_node(tx, "server-1", INT64_MAX, 10)); }},
      {"LeaseRepository::remove_expired", 0,
       [](Tx& tx) { return only_errors(LeaseRepository::remove_expired(tx, past, 10)); }},

      {"MetadataRepository::upsert", 0,
       [](Tx& tx) { return only_errors(MetadataRepository::upsert(tx, metadata_row(), now)); }},
      {"MetadataRepository::touch", 0,
       [report](Tx& tx) {
         return only_errors(
             MetadataRepository::touch(tx, std::span(&report, 1), "2027-02-01T00:00:00Z", now));
       }},
      {"MetadataRepository::mark_stale", 0,
       [report](Tx& tx) { return only_errors(MetadataRepository::mark_stale(tx, report, now)); }},
      {"MetadataRepository::sweep", 0,
       [](Tx& tx) { return only_errors(MetadataRepository::sweep(tx, past, past, 10)); }},
      {"MetadataRepository::remove", 0,
       [report](Tx& tx) { return only_errors(MetadataRepository::remove(tx, report, now)); }},

      {"SessionRepository::create", 0, [session](Tx& tx) { return SessionRepository::create(tx, session); }},
      {"SessionRepository::revoke", 0,
       [](Tx& tx) { return only_errors(SessionRepository::revoke(tx, "user-session", now)); }},
      {"SessionRepository::revoke_all_of_user", 0,
       [](Tx& tx) { return only_errors(SessionRepository::revoke_all_of_user(tx, "user-alice", now)); }},
      {"SessionRepository::revoke_oldest", 0,
       [](Tx& tx) { return only_errors(SessionRepository::revoke_oldest(tx, "user-alice", 1, now)); }},
      {"SessionRepository::purge", 0,
       [](Tx& tx) { return only_errors(SessionRepository::purge(tx, "2028-01-01T00:00:00Z", 10)); }},

      {"IdempotencyRepository::insert", 0, [key](Tx& tx) { return IdempotencyRepository::insert(tx, key); }},
      {"IdempotencyRepository::replace", 0,
       [key](Tx& tx) {
         IdempotencyRecord other = key;
         other.status_code = 201;
         return IdempotencyRepository::replace(tx, other);
       }},
      {"IdempotencyRepository::purge", 0,
       [](Tx& tx) { return only_errors(IdempotencyRepository::purge(tx, "2028-01-01T00:00:00Z", 10)); }},

      {"AuditRepository::append", 0,
       [](Tx& tx) { return AuditRepository::append(tx, {"audit-one", "", "x.y", "user", "", "{}", now}); }},
      {"AuditRepository::purge", 0,
       [](Tx& tx) { return only_errors(AuditRepository::purge(tx, "2028-01-01T00:00:00Z", 10)); }},
  };
}

}  // namespace tmesh::test
