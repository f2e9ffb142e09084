// /users, /audit-logs and their alias /audits; administrators only.
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "cpp/base/encoding.hpp"
#include "cpp/base/utf8.hpp"
#include "cpp/server/admin_api/api.hpp"
#include "cpp/server/user_service.hpp"
#include "cpp/storage/audit_repository.hpp"
#include "cpp/storage/timestamp.hpp"
#include "cpp/storage/user_repository.hpp"

namespace tmesh::server {
namespace {

// `password` is the one-time member of the answers that have one.
void write_user(json::Writer& out, const storage::UserRecord& user, const Secret* password = nullptr) {
  out.begin_object()
      .member("id", user.id)
      .member("username", user.username)
      .member("role", user.role)
      .member("disabled", user.is_disabled);
  member_or_null(out, "deletedAt", user.deleted_at);
  out.member("createdAt", user.created_at).member("updatedAt", user.updated_at);
  if (password != nullptr) out.member("temporaryPassword", password->reveal());
  out.end_object();
}

std::string user_json(const storage::UserRecord& user, const Secret* password = nullptr) {
  std::string text;
  json::Writer out(text);
  write_user(out, user, password);
  return text;
}

ApiReply with_password(int status, const ApiCall& call, const storage::UserRecord& user) {
  return {status, user_json(user, &call.password->password), user_json(user), true};
}

ApiFound<storage::UserFilter> user_filter(const ApiCall& call) {
  const std::string_view status = call.query_value("status").value_or("active");
  if (status == "active") return storage::UserFilter::active;
  if (status == "deleted") return storage::UserFilter::deleted;
  if (status == "all") return storage::UserFilter::all;
  return api_error(400, "status: one of active, deleted and all is expected");
}

ApiResult list_users(ApiCall& call) {
  const auto filter = user_filter(call);
  if (!filter) return std::unexpected(filter.error());
  const auto request = page_request(call);
  if (!request) return std::unexpected(request.error());
  const auto page = storage::UserRepository(call.db).list(*request, *filter);
  if (!page) return api_database_error(page.error());
  return ApiReply{200, page_json(*page, [](json::Writer& out, const storage::UserRecord& user) {
                    write_user(out, user);
                  })};
}

ApiResult create_user(ApiCall& call) {
  const auto username = required_text(call, "username");
  if (!username) return std::unexpected(username.error());
  const auto user = UserService(*call.change).create(*username, "user", call.password->hash);
  if (!user) return api_error(user.error());
  return with_password(201, call, *user);
}

// The user of the path, for a change. Administrators are changed on the server's command
// line: whoever has one administrator's token cannot lock the others out.
ApiFound<storage::UserRecord> changeable_user(const ApiCall& call) {
  auto found = UserService(*call.change).find(call.path[0]);
  if (!found) return api_database_error(found.error());
  if (!*found) return api_error(404, "there is no such user");
  if ((*found)->role == "admin") {
    return api_error(403, "an administrator is changed with the server's command line only");
  }
  return std::move(**found);
}

template <class Change>
ApiResult change_user(ApiCall& call, Change change) {
  auto user = changeable_user(call);
  if (!user) return std::unexpected(user.error());
  const Result<void> done = change(UserService(*call.change), *user);
  if (!done) return api_error(done.error());
  return ApiReply{200, user_json(*user)};
}

ApiResult patch_user(ApiCall& call) {
  const auto disabled = body_bool(call, "disabled");
  if (!disabled) return std::unexpected(disabled.error());
  if (!*disabled) return api_error(400, "disabled: is required");
  return change_user(call, [&](UserService users, storage::UserRecord& user) {
    return users.set_disabled(user, **disabled);
  });
}

ApiResult delete_user(ApiCall& call) {
  return change_user(call, [](UserService users, storage::UserRecord& user) { return users.remove(user); });
}

ApiResult restore_user(ApiCall& call) {
  return change_user(call, [](UserService users, storage::UserRecord& user) { return users.restore(user); });
}

ApiResult reset_password(ApiCall& call) {
  auto user = changeable_user(call);
  if (!user) return std::unexpected(user.error());
  const Result<void> done = UserService(*call.change).reset_password(*user, call.password->hash);
  if (!done) return api_error(done.error());
  return with_password(200, call, *user);
}

// ---- audit ----

constexpr std::array kAuditQuery = {"actorUserId", "action",      "resourceType",
                                    "resourceId",  "createdFrom", "createdTo"};

ApiFound<std::string> time_query(const ApiCall& call, const char* name) {
  const std::string_view text = call.query_value(name).value_or("");
  if (!text.empty() && !storage::parse_timestamp(text)) {
    return api_error(400, std::string(name) + ": a time like 2027-01-31T00:00:00Z is expected");
  }
  return std::string(text);
}

ApiFound<storage::AuditFilter> audit_filter(const ApiCall& call) {
  const auto text = [&call](const char* name) { return std::string(call.query_value(name).value_or("")); };
  auto from = time_query(call, "createdFrom");
  if (!from) return std::unexpected(from.error());
  auto to = time_query(call, "createdTo");
  if (!to) return std::unexpected(to.error());
  return storage::AuditFilter{text("actorUserId"), text("action"),   text("resourceType"),
                              text("resourceId"),  std::move(*from), std::move(*to)};
}

// base64url of created_at, NUL and id; an older program's has the id alone.
ApiFound<storage::AuditPageRequest> audit_page(const ApiCall& call) {
  const auto limit = page_limit(call);
  if (!limit) return std::unexpected(limit.error());
  storage::AuditPageRequest request{"", "", *limit};
  const std::string_view cursor = call.query_value("cursor").value_or("");
  if (cursor.empty()) return request;
  const auto text = base64url_decode(cursor);
  const auto malformed = [] { return api_error(400, "cursor: not one that this list gave"); };
  if (!text) return malformed();
  const size_t nul = text->find('\0');
  if (nul != std::string::npos) request.after_created_at = text->substr(0, nul);
  request.after_id = nul == std::string::npos ? *text : text->substr(nul + 1);
  const bool is_good = !request.after_id.empty() && utf8_valid(request.after_id) &&
                       request.after_id.find('\0') == std::string::npos &&
                       (nul == std::string::npos || storage::parse_timestamp(request.after_created_at));
  if (!is_good) return malformed();
  return request;
}

std::string audit_cursor(const storage::AuditRecord& entry) {
  std::string text = entry.created_at;
  text += '\0';
  text += entry.id;
  return base64url_encode(as_bytes(text));
}

void write_entry(json::Writer& out, const storage::AuditRecord& entry) {
  out.begin_object().member("id", entry.id);
  member_or_null(out, "actorUserId", entry.actor_user_id);
  out.member("action", entry.action).member("resourceType", entry.resource_type);
  member_or_null(out, "resourceId", entry.resource_id);
  out.key("details");
  // Other programs write here too; what is no JSON is shown as the text it is.
  if (json::parse(entry.details)) {
    out.raw(entry.details);
  } else {
    out.string(entry.details);
  }
  out.member("createdAt", entry.created_at).end_object();
}

ApiResult list_audit(ApiCall& call) {
  const auto filter = audit_filter(call);
  if (!filter) return std::unexpected(filter.error());
  const auto request = audit_page(call);
  if (!request) return std::unexpected(request.error());
  const auto page = storage::AuditRepository(call.db).list(*request, *filter);
  // The one thing that can be wrong with it beyond its form.
  if (!page && page.error().code == TMESH_E_STATE) return api_error(400, "cursor: its entry is gone");
  if (!page) return api_database_error(page.error());
  std::string text;
  json::Writer out(text);
  out.begin_object().key("items").begin_array();
  for (const storage::AuditRecord& entry : page->items) write_entry(out, entry);
  out.end_array()
      .member("nextCursor", page->has_more ? audit_cursor(page->items.back()) : std::string())
      .member("hasMore", page->has_more)
      .end_object();
  return ApiReply{200, std::move(text)};
}

constexpr std::array kUserQuery = {"status"};
constexpr std::array kNewUser = {"username"};
constexpr std::array kUserPatch = {"disabled"};

using http::Method;
constexpr ApiRoute kRoutes[] = {
    {.method = Method::get, .path = "/users", .run = list_users, .query_names = kUserQuery, .is_list = true},
    {.method = Method::post,
     .path = "/users",
     .run = create_user,
     .body_members = kNewUser,
     .makes_password = true},
    {.method = Method::patch, .path = "/users/{id}", .run = patch_user, .body_members = kUserPatch},
    {.method = Method::del, .path = "/users/{id}", .run = delete_user},
    {.method = Method::post,
     .path = "/users/{id}/reset-password",
     .run = reset_password,
     .makes_password = true},
    {.method = Method::post, .path = "/users/{id}/restore", .run = restore_user},
    {.method = Method::get,
     .path = "/audit-logs",
     .run = list_audit,
     .query_names = kAuditQuery,
     .is_list = true},
    {.method = Method::get,
     .path = "/audits",
     .run = list_audit,
     .query_names = kAuditQuery,
     .is_list = true},
};

}  // namespace

std::span<const ApiRoute> people_routes() {
  return kRoutes;
}

}  // namespace tmesh::server
