#include "cpp/server/admin_api/api.hpp"

#include "cpp/base/encoding.hpp"
#include "cpp/base/parse.hpp"
#include "cpp/base/utf8.hpp"

namespace tmesh::server {
namespace {

constexpr size_t id_bytes_max = 255;  // the columns' width

// Ids hold no control characters; the cursors of other kinds of lists do (a NUL between
// their parts), and are so told from ours.
bool is_id(std::string_view text) {
  if (text.empty() || text.size() > id_bytes_max || !utf8_valid(text)) return false;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return false;
  }
  return true;
}

std::unexpected<ApiError> wrong_type(const char* name, const char* expected) {
  return api_error(400, std::string(name) + ": " + expected + " is expected");
}

// An array whose items are all of one type; `read` gives an optional.
template <class T, class Read>
ApiFound<std::optional<std::vector<T>>> body_list(const ApiCall& call, const char* name, const char* expected,
                                                  Read read) {
  const json::Value value = call.body.get(name);
  if (!value) return std::nullopt;
  if (!value.is_array()) return wrong_type(name, expected);
  std::vector<T> items;
  for (const json::Value item : value) {
    auto one = read(item);
    if (!one) return wrong_type(name, expected);
    items.emplace_back(*one);
  }
  return items;
}

}  // namespace

std::optional<std::string_view> ApiCall::query_value(std::string_view name) const {
  for (const auto& [key, value] : query) {
    if (key == name) return value;
  }
  return std::nullopt;
}

std::unexpected<ApiError> api_error(int status, std::string text) {
  return std::unexpected(ApiError{.status = status, .text = std::move(text)});
}

std::unexpected<ApiError> api_error(const Error& error) {
  switch (error.code) {
    case TMESH_E_INVALID:
      return api_error(400, error.text);
    case TMESH_E_POLICY:
      return api_error(403, error.text);
    case TMESH_E_STATE:
      return api_error(409, error.text);
    case TMESH_E_TOO_LARGE:
      return api_error(413, error.text);
    case TMESH_E_TIMEOUT:
      return std::unexpected(ApiError{503, "the database is busy; try again", true, error.text});
    case TMESH_E_LIMIT:
    case TMESH_E_NO_MEMORY:
      return std::unexpected(
          ApiError{503, "the server has no room for this now; try again later", false, error.text});
    default:
      return std::unexpected(
          ApiError{500, "the server could not do this; its log says why", false, error.text});
  }
}

std::unexpected<ApiError> api_database_error(Error error) {
  const bool is_about_the_request = error.code == TMESH_E_INVALID || error.code == TMESH_E_POLICY ||
                                    error.code == TMESH_E_STATE || error.code == TMESH_E_TOO_LARGE;
  if (is_about_the_request) error.code = TMESH_E_IO;
  return api_error(error);
}

ApiFound<std::optional<std::string>> body_text(const ApiCall& call, const char* name) {
  const json::Value value = call.body.get(name);
  if (!value) return std::nullopt;
  const auto text = value.as_string();
  if (!text) return wrong_type(name, "a text");
  return std::string(*text);
}

ApiFound<std::string> required_text(const ApiCall& call, const char* name) {
  auto text = body_text(call, name);
  if (!text) return std::unexpected(text.error());
  if (!*text) return api_error(400, std::string(name) + ": is required");
  return std::move(**text);
}

ApiFound<std::optional<bool>> body_bool(const ApiCall& call, const char* name) {
  const json::Value value = call.body.get(name);
  if (!value) return std::nullopt;
  const auto flag = value.as_bool();
  if (!flag) return wrong_type(name, "true or false");
  return flag;
}

ApiFound<std::optional<int64_t>> body_int(const ApiCall& call, const char* name) {
  const json::Value value = call.body.get(name);
  if (!value) return std::nullopt;
  const auto number = value.as_int();
  if (!number) return wrong_type(name, "a whole number");
  return number;
}

ApiFound<std::optional<std::vector<std::string>>> body_texts(const ApiCall& call, const char* name) {
  return body_list<std::string>(call, name, "a list of texts",
                                [](json::Value item) { return item.as_string(); });
}

ApiFound<std::optional<std::vector<int64_t>>> body_ints(const ApiCall& call, const char* name) {
  return body_list<int64_t>(call, name, "a list of whole numbers",
                            [](json::Value item) { return item.as_int(); });
}

ApiFound<storage::PageRequest> page_request(const ApiCall& call) {
  storage::PageRequest request;
  if (const auto cursor = call.query_value("cursor"); cursor && !cursor->empty()) {
    auto id = base64url_decode(*cursor);
    if (!id || !is_id(*id)) return api_error(400, "cursor: not one that this list gave");
    request.after_id = std::move(*id);
  }
  const auto limit = page_limit(call);
  if (!limit) return std::unexpected(limit.error());
  request.limit = *limit;
  return request;
}

ApiFound<int> page_limit(const ApiCall& call) {
  const auto limit = call.query_value("limit");
  if (!limit) return storage::PageRequest{}.limit;
  const auto number = parse_uint(*limit);
  if (!number || *number < 1 || *number > storage::PageRequest::limit_max) {
    return api_error(400, "limit: a number from 1 to 500 is expected");
  }
  return static_cast<int>(*number);
}

std::string cursor_of(std::string_view id) {
  return base64url_encode(as_bytes(id));
}

void member_or_null(json::Writer& out, const char* name, std::string_view value) {
  out.key(name);
  if (value.empty()) {
    out.null();
  } else {
    out.string(value);
  }
}

}  // namespace tmesh::server
