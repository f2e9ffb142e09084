#include "cpp/server/admin_api/api_idempotency.hpp"

#include "cpp/server/token_hash.hpp"
#include "cpp/storage/idempotency_repository.hpp"
#include "cpp/storage/timestamp.hpp"

namespace tmesh::server {
namespace {

// A kept response: {"request":"<64 digits>","data":<reply>}
constexpr std::string_view response_head = R"({"request":")";
constexpr std::string_view response_middle = R"(","data":)";

std::string response_text(const IdempotentUse& use, std::string_view data) {
  std::string text(response_head);
  text += use.request;
  text += response_middle;
  text += data;
  text += '}';
  return text;
}

// The data of a response to the same request; nullopt: of another one.
std::optional<std::string> replayed_data(std::string_view response, const IdempotentUse& use) {
  const std::string same = response_text(use, {});
  const std::string_view start = std::string_view(same).substr(0, same.size() - 1);
  if (!response.starts_with(start) || !response.ends_with('}')) return std::nullopt;
  std::string data(response.substr(start.size(), response.size() - start.size() - 1));
  if (!data.starts_with('{')) return data;
  data.insert(1, data == "{}" ? R"("replayed":true)" : R"("replayed":true,)");
  return data;
}

storage::IdempotencyRecord record_of(const IdempotentUse& use, std::string response, int64_t now_us) {
  storage::IdempotencyRecord record;
  record.key = use.key;
  record.user_id = use.user_id;
  record.response = std::move(response);
  record.created_at = storage::format_timestamp(now_us);
  record.expires_at = storage::format_timestamp(now_us + kIdempotencyKept_us);
  return record;
}

std::string digest(std::string_view text) {
  return digest_token(text).hex;
}

// Length before content, so that no two lists of parts give the same text.
void append_part(std::string& text, std::string_view part) {
  text += std::to_string(part.size());
  text += ':';
  text += part;
}

}  // namespace

IdempotentUse idempotent_use(std::string_view user_id, std::string_view key, http::Method method,
                             std::string_view target, std::string_view body) {
  IdempotentUse use;
  std::string text;
  append_part(text, user_id);
  append_part(text, key);
  use.key = "api-" + digest(text);
  text.clear();
  append_part(text, http::method_name(method));
  append_part(text, target);
  append_part(text, body);
  use.request = digest(text);
  use.user_id = user_id;
  return use;
}

ApiFound<std::optional<ApiReply>> take_key(storage::Transaction& tx, const IdempotentUse& use,
                                           int64_t now_us) {
  const storage::IdempotencyRecord mine = record_of(use, response_text(use, "null"), now_us);
  const Result<void> added = storage::IdempotencyRepository::insert(tx, mine);
  if (added) return std::nullopt;
  if (added.error().code != TMESH_E_STATE) return api_database_error(added.error());
  auto found = storage::IdempotencyRepository(tx.db()).find(use.key);
  if (!found) return api_database_error(found.error());
  const storage::IdempotencyRecord* row = storage::row_of(*found);
  // Purged between the two statements.
  if (row == nullptr) return api_error({TMESH_E_TIMEOUT, TMESH_SCOPE_STREAM, "a key was purged meanwhile"});
  if (!row->expires_at.empty() && row->expires_at <= mine.created_at) {
    if (Result<void> done = storage::IdempotencyRepository::replace(tx, mine); !done) {
      return api_database_error(done.error());
    }
    return std::nullopt;
  }
  auto data = replayed_data(row->response, use);
  if (!data) return api_error(409, "the Idempotency-Key was used for another request");
  ApiReply reply;
  reply.status = static_cast<int>(row->status_code);
  reply.data = std::move(*data);
  return reply;
}

ApiFound<void> keep_reply(storage::Transaction& tx, const IdempotentUse& use, const ApiReply& reply,
                          int64_t now_us) {
  std::string_view data = reply.replay;
  // An endpoint that says nothing else has the same answer for the repetition, unless
  // there is a secret in it.
  if (data.empty()) data = reply.has_secret ? std::string_view("{}") : std::string_view(reply.data);
  if (data.size() > kIdempotencyReplyBytesMax) data = "{}";
  storage::IdempotencyRecord record = record_of(use, response_text(use, data), now_us);
  record.status_code = reply.status;
  if (Result<void> done = storage::IdempotencyRepository::replace(tx, record); !done) {
    return api_database_error(done.error());
  }
  return {};
}

}  // namespace tmesh::server
