#include "cpp/http/proxy/message_reader.hpp"

#include <llhttp.h>

#include <algorithm>
#include <array>

#include "core/base/check.h"

namespace tmesh::http {

struct MessageReader::Parser {
  llhttp_t llhttp{};
  FieldReader fields{kMaxHeadBytes, kMaxFieldsCount};
};

struct MessageReaderGlue {
  static MessageReader& self(llhttp_t* p) { return *static_cast<MessageReader*>(p->data); }
  static FieldReader& fields(llhttp_t* p) { return self(p).parser_->fields; }

  static int too_large_unless(llhttp_t* p, bool is_within) {
    if (!is_within) self(p).fail(431);
    return is_within ? 0 : -1;
  }
  static int on_target(llhttp_t* p, const char* at, size_t n) {
    if (!fields(p).charge(n)) return too_large_unless(p, false);
    self(p).head_.target.append(at, n);
    return 0;
  }
  static int on_reason(llhttp_t* p, const char* at, size_t n) {
    if (!fields(p).charge(n)) return too_large_unless(p, false);
    self(p).head_.reason.append(at, n);
    return 0;
  }
  static int on_name(llhttp_t* p, const char* at, size_t n) {
    MessageReader& r = self(p);
    if (!fields(p).on_name(r.head_.fields, at, n)) return too_large_unless(p, false);
    if (r.state_ == MessageReader::State::body) r.trailer_name_.append(at, n);
    return 0;
  }
  static int on_name_complete(llhttp_t* p) {
    MessageReader& r = self(p);
    if (r.state_ != MessageReader::State::body) return 0;
    const bool is_allowed = r.is_trailer_allowed();
    r.trailer_name_.clear();
    return is_allowed ? 0 : -1;
  }
  static int on_value(llhttp_t* p, const char* at, size_t n) {
    return too_large_unless(p, fields(p).on_value(self(p).head_.fields, at, n));
  }
  static int on_value_complete(llhttp_t* p) {
    return too_large_unless(p, fields(p).on_value_complete(self(p).head_.fields));
  }
  static int on_head(llhttp_t* p) {
    MessageReader& r = self(p);
    if (const int status = r.check_head()) {
      r.fail(status);
      return -1;
    }
    fields(p).end_head();
    r.state_ = MessageReader::State::body;
    return HPE_PAUSED;
  }
  static int on_complete(llhttp_t* p) {
    self(p).state_ = MessageReader::State::complete;
    return HPE_PAUSED;
  }
  static llhttp_settings_t make_settings() {
    llhttp_settings_t s;
    llhttp_settings_init(&s);
    s.on_url = on_target;
    s.on_status = on_reason;
    s.on_header_field = on_name;
    s.on_header_field_complete = on_name_complete;
    s.on_header_value = on_value;
    s.on_header_value_complete = on_value_complete;
    s.on_headers_complete = on_head;
    s.on_message_complete = on_complete;
    return s;
  }
  static const llhttp_settings_t kSettings;

  static void begin(MessageReader& r) {
    const bool is_request = r.kind_ == MessageReader::Kind::request;
    llhttp_init(&r.parser_->llhttp, is_request ? HTTP_REQUEST : HTTP_RESPONSE, &kSettings);
    r.parser_->llhttp.data = &r;
    r.parser_->fields.begin_head();
    r.head_ = MessageHead{};
    r.trailer_name_.clear();
  }
};
const llhttp_settings_t MessageReaderGlue::kSettings = MessageReaderGlue::make_settings();

MessageReader::MessageReader(Kind kind) : kind_(kind), parser_(std::make_unique<Parser>()) {
  MessageReaderGlue::begin(*this);
}

MessageReader::~MessageReader() = default;

void MessageReader::fail(int status) {
  state_ = State::failed;
  error_status_ = status;
}

int MessageReader::check_head() {
  const llhttp_t& p = parser_->llhttp;
  if (p.http_major != 1 || p.http_minor > 1) return 505;
  head_.minor_version = p.http_minor;
  head_.framing = framing_of(head_.fields, p.http_minor == 1);
  // A coding that nobody here knows might hide where the message ends.
  if (head_.framing == Framing::malformed || head_.framing == Framing::unknown) return 400;
  if (head_.framing == Framing::length) head_.content_length_bytes = p.content_length;
  if (kind_ == Kind::request) {
    // RTSP and Icecast, whose versions llhttp takes for one of HTTP.
    if (p.method == HTTP_SOURCE || (p.method >= HTTP_DESCRIBE && p.method <= HTTP_FLUSH)) return 400;
    head_.method = llhttp_method_name(static_cast<llhttp_method_t>(p.method));
    return 0;
  }
  head_.status = p.status_code;
  return head_.status < 100 || head_.status > 599 ? 400 : 0;
}

bool MessageReader::is_trailer_allowed() const {
  static constexpr std::array<std::string_view, 9> kRefused = {
      "content-length", "transfer-encoding", "host",  "connection", "keep-alive", "te",
      "trailer",        "upgrade",           "expect"};
  static constexpr std::string_view kProxy = "proxy-";
  if (equals_ignoring_case(std::string_view(trailer_name_).substr(0, kProxy.size()), kProxy)) return false;
  return std::none_of(kRefused.begin(), kRefused.end(),
                      [this](std::string_view name) { return equals_ignoring_case(name, trailer_name_); });
}

std::size_t MessageReader::feed(std::span<const uint8_t> data) {
  TMESH_ASSERT(state_ != State::complete && state_ != State::failed);
  if (data.empty()) return 0;
  if (state_ != State::body) return feed_head(data);
  if (is_until_end_) return data.size();
  if (head_.framing == Framing::chunked) return feed_chunks(data);
  const auto used = static_cast<std::size_t>(std::min<uint64_t>(rest_bytes_, data.size()));
  rest_bytes_ -= used;
  if (rest_bytes_ == 0) state_ = State::complete;
  return used;
}

std::size_t MessageReader::feed_head(std::span<const uint8_t> data) {
  state_ = State::head;
  const char* const begin = reinterpret_cast<const char*>(data.data());
  llhttp_t& p = parser_->llhttp;
  const llhttp_errno_t error = llhttp_execute(&p, begin, data.size());
  if (state_ == State::failed) return 0;
  if (error != HPE_OK && (error != HPE_PAUSED || state_ != State::body)) {
    // The same error is a version that is good, with something behind it that is not.
    const bool is_other_version = p.http_major != 1 || p.http_minor > 1;
    const bool is_version = error == HPE_INVALID_VERSION && is_other_version;
    fail(is_version || error == HPE_PAUSED_H2_UPGRADE ? 505 : 400);
    return 0;
  }
  const std::size_t used =
      error == HPE_OK ? data.size() : static_cast<std::size_t>(llhttp_get_error_pos(&p) - begin);
  // White space and line ends reach no callback; they count here.
  head_wire_bytes_ += used;
  if (head_wire_bytes_ > kMaxHeadBytes) {
    fail(431);
    return 0;
  }
  if (state_ == State::head) return used;
  const bool is_response = kind_ == Kind::response;
  const bool has_none =
      is_response && (is_answer_to_head_ || head_.status < 200 || head_.status == 204 || head_.status == 304);
  rest_bytes_ = has_none ? 0 : head_.content_length_bytes;
  is_until_end_ = is_response && !has_none && head_.framing == Framing::none;
  const bool is_chunked = !has_none && head_.framing == Framing::chunked;
  if (!is_until_end_ && !is_chunked && rest_bytes_ == 0) state_ = State::complete;
  return used;
}

std::size_t MessageReader::feed_chunks(std::span<const uint8_t> data) {
  const char* const begin = reinterpret_cast<const char*>(data.data());
  llhttp_t& p = parser_->llhttp;
  if (llhttp_get_errno(&p) == HPE_PAUSED) llhttp_resume(&p);
  const llhttp_errno_t error = llhttp_execute(&p, begin, data.size());
  if (state_ == State::complete) return static_cast<std::size_t>(llhttp_get_error_pos(&p) - begin);
  if (error == HPE_OK) return data.size();
  if (state_ != State::failed) fail(400);
  return 0;
}

void MessageReader::finish() {
  TMESH_ASSERT(state_ != State::complete && state_ != State::failed);
  if (state_ == State::body && is_until_end_) {
    state_ = State::complete;
  } else {
    fail(400);
  }
}

void MessageReader::forget_head() {
  head_.fields = {};
  std::string().swap(head_.target);
  std::string().swap(head_.reason);
}

std::size_t MessageReader::held_bytes() const {
  const std::size_t fields_bytes = head_.fields.size() == 0 ? 0 : parser_->fields.held_bytes();
  return head_.target.size() + head_.reason.size() + fields_bytes;
}

void MessageReader::next(bool is_answer_to_head) {
  next_head();
  parser_->fields.reset();
  is_answer_to_head_ = is_answer_to_head;
  head_wire_bytes_ = 0;
}

void MessageReader::next_head() {
  MessageReaderGlue::begin(*this);
  is_until_end_ = false;
  rest_bytes_ = 0;
  state_ = State::idle;
}

}  // namespace tmesh::http
