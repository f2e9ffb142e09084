// Idempotency-Key: the same change asked for twice happens once.
//
// The row of a key is written in the transaction of the change, before the change: of two
// requests at the same time one waits for the other's commit and then finds its row. A key
// belongs to its user; others neither see nor block it. What failed leaves no row and may be
// tried again under its key. Replies are kept without secrets. Blocking; database thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cpp/http/message.hpp"
#include "cpp/server/admin_api/api.hpp"
#include "cpp/storage/db.hpp"

namespace tmesh::server {

// How long a repetition is recognised; longer than anybody retries a request.
inline constexpr int64_t kIdempotencyKept_us = 24 * int64_t{3'600'000'000};
// Of a reply: MySQL's TEXT holds 65,535 bytes. A longer one is replayed as {}.
inline constexpr std::size_t kIdempotencyReplyBytesMax = 65'000;

// A use of a key. Both are digests: nothing of the request is kept in the clear, and no part
// of it can be mistaken for another.
struct IdempotentUse {
  std::string key;      // of user and key
  std::string request;  // of method, target and body
  std::string user_id;
};
// `target`: path and query as sent.
IdempotentUse idempotent_use(std::string_view user_id, std::string_view key, http::Method method,
                             std::string_view target, std::string_view body);

// Takes the key for this change. nullopt: it is new (or its row expired), go on. A reply: the
// change was made before; answer with it, `"replayed":true` in it. 409: the key stands for
// another request. Other errors as api_error.
ApiFound<std::optional<ApiReply>> take_key(storage::Transaction& tx, const IdempotentUse& use,
                                           int64_t now_us);

// Keeps the reply under the key that was taken.
ApiFound<void> keep_reply(storage::Transaction& tx, const IdempotentUse& use, const ApiReply& reply,
                          int64_t now_us);

}  // namespace tmesh::server
