// token
#include "cpp/base/parse.hpp"
#include "cpp/server/admin_context.hpp"
#include "cpp/server/admin_token_options.hpp"
#include "cpp/server/token_validity.hpp"
#include "cpp/storage/token_repository.hpp"

namespace tmesh::server {
namespace {

Result<AdminRow> describe(TokenChecker& checker, int64_t now_us, const storage::TokenRecord& token) {
  const Result<TokenStatus> status = checker.status(token, now_us);
  if (!status) return std::unexpected(status.error());
  // A scope that cannot be read is shown as the text it is.
  const bool is_scope_good = parse_scope(token.scope).has_value();
  return AdminRow{{"id", token.id},
                  {"type", token.token_type},
                  {"prefix", token.token_prefix},
                  {"status", std::string(token_status_name(*status))},
                  {"ownerUserId", admin_text(token.owner_user_id)},
                  {"agentId", admin_text(token.agent_id)},
                  {"scope", is_scope_good ? AdminValue(AdminJson{token.scope}) : AdminValue(token.scope)},
                  {"expiresAt", admin_text(token.expires_at)},
                  {"revokedAt", admin_text(token.revoked_at)},
                  {"lastUsedAt", admin_text(token.last_used_at)},
                  {"createdAt", admin_text(token.created_at)},
                  {"updatedAt", admin_text(token.updated_at)}};
}

AdminResult print(const AdminContext& context, const storage::TokenRecord& token,
                  const Secret* secret = nullptr) {
  TokenChecker checker(context.db);
  Result<AdminRow> row = describe(checker, context.now_us, token);
  if (!row) return admin_failure(row.error());
  if (secret != nullptr) row->push_back({"secret", std::string(secret->reveal())});
  context.print(*row);
  return {};
}

AdminResult print_created(const AdminContext& context, const CreatedToken& made) {
  if (AdminResult done = print(context, made.token, &made.secret); !done) return done;
  context.note("note: the secret is shown only this once");
  return {};
}

AdminResult create_token(const AdminContext& context) {
  AdminFound<NewToken> wanted = new_token_options(context);
  if (!wanted) return std::unexpected(wanted.error());
  AdminFound<CreatedToken> made = context.change([&](const ChangeScope& scope) {
    return TokenService(scope, context.request.secret_box).create(*wanted);
  });
  if (!made) return std::unexpected(made.error());
  return print_created(context, *made);
}

AdminResult list_tokens(const AdminContext& context) {
  const AdminFound<std::string> owner_id = context.owner_filter();
  if (!owner_id) return std::unexpected(owner_id.error());
  const auto fetch = [&](const storage::PageRequest& page) {
    return storage::TokenRepository(context.db).list(page, *owner_id);
  };
  AdminFound<std::vector<storage::TokenRecord>> tokens = context.all<storage::TokenRecord>(fetch);
  if (!tokens) return std::unexpected(tokens.error());
  TokenChecker checker(context.db);
  std::vector<AdminRow> rows;
  for (const storage::TokenRecord& token : *tokens) {
    Result<AdminRow> row = describe(checker, context.now_us, token);
    if (!row) return admin_failure(row.error());
    rows.push_back(std::move(*row));
  }
  context.print(rows);
  return {};
}

// Runs `work(TokenService&, TokenRecord&) -> Result<T>` on the token that the command names.
template <class Work>
auto change_token(const AdminContext& context, Work work) {
  return context.change(
      [&](const ChangeScope& scope) -> decltype(work(std::declval<TokenService&>(),
                                                     std::declval<storage::TokenRecord&>())) {
        TokenService service(scope, context.request.secret_box);
        Result<std::optional<storage::TokenRecord>> token = service.find(context.argument());
        if (!token) return std::unexpected(token.error());
        if (!*token) return fail(TMESH_E_STATE, "there is no such token");
        return work(service, **token);
      });
}

using Changed = Result<storage::TokenRecord>;

AdminResult revoke_token(const AdminContext& context) {
  AdminFound<storage::TokenRecord> token =
      change_token(context, [](TokenService& service, storage::TokenRecord& row) -> Changed {
        if (Result<void> done = service.revoke(row); !done) return std::unexpected(done.error());
        return std::move(row);
      });
  if (!token) return std::unexpected(token.error());
  return print(context, *token);
}

AdminResult update_token(const AdminContext& context) {
  AdminFound<TokenOptions> options = changed_token_options(context);
  if (!options) return std::unexpected(options.error());
  AdminFound<storage::TokenRecord> token =
      change_token(context, [&](TokenService& service, storage::TokenRecord& row) -> Changed {
        Result<TokenChange> wanted = options->applied_to(row);
        if (!wanted) return std::unexpected(wanted.error());
        if (Result<void> done = service.update(row, *wanted); !done) return std::unexpected(done.error());
        return std::move(row);
      });
  if (!token) return std::unexpected(token.error());
  return print(context, *token);
}

AdminResult rotate_token(const AdminContext& context) {
  AdminFound<CreatedToken> made = change_token(
      context, [](TokenService& service, storage::TokenRecord& row) { return service.rotate(row); });
  if (!made) return std::unexpected(made.error());
  return print_created(context, *made);
}

AdminResult reveal_token(const AdminContext& context) {
  AdminFound<CreatedToken> shown =
      change_token(context, [](TokenService& service, storage::TokenRecord& row) -> Result<CreatedToken> {
        Result<Secret> secret = service.reveal(row);
        if (!secret) return std::unexpected(secret.error());
        return CreatedToken{std::move(row), std::move(*secret)};
      });
  if (!shown) return std::unexpected(shown.error());
  return print(context, shown->token, &shown->secret);
}

}  // namespace

AdminResult run_token_command(const AdminContext& context) {
  const std::string& verb = context.request.verb;
  if (verb == "create") return create_token(context);
  if (verb == "list") return list_tokens(context);
  if (verb == "revoke") return revoke_token(context);
  if (verb == "update") return update_token(context);
  if (verb == "rotate") return rotate_token(context);
  if (verb == "reveal") return reveal_token(context);
  Result<std::optional<storage::TokenRecord>> found =
      storage::TokenRepository(context.db).find(context.argument());
  if (!found) return admin_failure(found.error());
  const storage::TokenRecord* token = storage::row_of(*found);
  if (token == nullptr) return admin_failure("there is no such token");
  return print(context, *token);
}

}  // namespace tmesh::server
