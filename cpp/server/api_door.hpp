// The administration API wired to this server's parts: its jobs to the database's lane of
// writes, its changes of rights to the revision watch, failed logins to the audit log.
//
// Owns the ApiHandler; borrows everything else, and goes before it. Loop thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cpp/base/result.hpp"
#include "cpp/config/server.hpp"
#include "cpp/net/loop.hpp"
#include "cpp/server/admin_api/api_handler.hpp"
#include "cpp/server/audit_trail.hpp"
#include "cpp/server/database.hpp"
#include "cpp/server/revision_watch.hpp"
#include "cpp/server/secret_box.hpp"

namespace tmesh::server {

class ApiDoor final : private ApiLane, private ApiEvents {
 public:
  struct Parts {
    net::Loop& loop;
    Database& database;
    RevisionWatch& watch;
    ApiLive& live;
  };
  // IO: no thread for passwords.
  static Result<std::unique_ptr<ApiDoor>> create(Parts parts, const config::ServerConfig& config,
                                                 std::string node_id, std::optional<SecretBox> secret_box);
  ApiDoor(const ApiDoor&) = delete;
  ApiDoor& operator=(const ApiDoor&) = delete;

  ApiHandler& handler() { return *handler_; }

 private:
  ApiDoor(Parts parts, std::optional<SecretBox> secret_box);

  Result<Ticket> run(std::unique_ptr<LaneJob> job, Delegate<void(std::unique_ptr<LaneJob>)> done) override;
  void on_rights_changed() override;
  void on_login_failed(std::string_view user_id) override;

  Database& database_;
  RevisionWatch& watch_;
  const std::optional<SecretBox> secret_box_;
  AuditTrail audit_;
  std::unique_ptr<ApiHandler> handler_;  // last: it calls the rest
};

}  // namespace tmesh::server
