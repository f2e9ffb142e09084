#include "cpp/server/api_door.hpp"

#include <utility>

namespace tmesh::server {

ApiDoor::ApiDoor(Parts parts, std::optional<SecretBox> secret_box)
    : database_(parts.database),
      watch_(parts.watch),
      secret_box_(std::move(secret_box)),
      audit_(parts.loop, parts.database) {}

Result<std::unique_ptr<ApiDoor>> ApiDoor::create(Parts parts, const config::ServerConfig& config,
                                                 std::string node_id, std::optional<SecretBox> secret_box) {
  auto passwords = PasswordPool::create(parts.loop);
  if (!passwords) return std::unexpected(passwords.error());
  std::unique_ptr<ApiDoor> door(new ApiDoor(parts, std::move(secret_box)));
  ApiSettings settings;
  settings.allowed_hosts = config.allowed_hosts;
  settings.trusted_proxies = config.trusted_proxies;
  settings.login_throttle = {config.login_throttle.attempts_max, config.login_throttle.window_us,
                             config.login_throttle.block_us};
  settings.session_ttl_us = config.session_token_ttl_us;
  settings.node_id = std::move(node_id);
  settings.secret_box = door->secret_box_ ? &*door->secret_box_ : nullptr;
  const std::initializer_list<std::span<const ApiRoute>> tables = {auth_routes(), people_routes(),
                                                                   access_routes(), presence_routes()};
  door->handler_ = std::make_unique<ApiHandler>(ApiHandler::Parts{parts.loop, *door, parts.live, *door},
                                                std::move(*passwords), tables, std::move(settings));
  return door;
}

// Reads too: a page of 500 rows must not stand before an open.
Result<Ticket> ApiDoor::run(std::unique_ptr<LaneJob> job, Delegate<void(std::unique_ptr<LaneJob>)> done) {
  return database_.write(
      [job = std::move(job)](storage::Db& db) mutable {
        job->run(db);
        return std::move(job);
      },
      done);
}

void ApiDoor::on_rights_changed() {
  watch_.note_local_commit();
}

void ApiDoor::on_login_failed(std::string_view user_id) {
  audit_.note({"user.login_failed", {}, "user", user_id});
}

}  // namespace tmesh::server
