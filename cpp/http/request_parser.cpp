#include "cpp/http/request_parser.hpp"

#include <llhttp.h>

#include <algorithm>
#include <optional>

#include "core/base/check.h"
#include "core/wire/ws_upgrade.h"

namespace tmesh::http {

namespace {

// Chunk framing and extensions are not kept but cost time: a chunked body may take
// this many bytes on the wire for each byte allowed (one-byte chunks take six), plus
// a floor for small limits.
constexpr std::size_t kBodyWireFactor = 8;
constexpr std::size_t kBodyWireFloorBytes = 65536;
// Of the memory a field costs besides its bytes.
constexpr std::size_t kFieldOverheadBytes = sizeof(Header);

std::optional<Method> method_from(uint8_t method) {
  switch (method) {
    case HTTP_GET:
      return Method::get;
    case HTTP_HEAD:
      return Method::head;
    case HTTP_POST:
      return Method::post;
    case HTTP_PUT:
      return Method::put;
    case HTTP_PATCH:
      return Method::patch;
    case HTTP_DELETE:
      return Method::del;
    case HTTP_OPTIONS:
      return Method::options;
    default:
      return std::nullopt;
  }
}

// host[:port] of RFC 3986 without percent-encoding: names, IPv4 and bracketed IPv6.
bool is_host_field(std::string_view host) {
  return !host.empty() && host.size() <= 262 && std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_' || c == ':' || c == '[' || c == ']';
  });
}

bool is_visible_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

}  // namespace

struct RequestParser::Impl {
  ParserLimits limits;
  llhttp_t parser{};
  Request request;
  std::string target;
  bool is_value = false;       // the last field has got its value
  bool is_after_head = false;  // fields that follow are trailers
  bool is_http_1_1 = false;
  std::size_t field_bytes = 0;  // request line, fields and trailers as far as parsed
  std::size_t head_wire_bytes = 0;
  std::size_t body_wire_bytes = 0;
  std::size_t held_bytes = 0;

  void reset_request() {
    request = Request{};
    target.clear();
    is_value = is_after_head = is_http_1_1 = false;
    field_bytes = head_wire_bytes = body_wire_bytes = held_bytes = 0;
  }
  int check_head();
  int check_target();
  int check_framing();
};

// The request line: version, method, target. 0 or the status to refuse with.
int RequestParser::Impl::check_target() {
  is_http_1_1 = parser.http_minor == 1;
  if (parser.http_major != 1 || parser.http_minor > 1) return 505;
  request.minor_version = parser.http_minor;
  std::optional<Method> method = method_from(llhttp_get_method(&parser));
  if (!method) return 501;
  request.method = *method;
  if (!is_visible_ascii(target) || target.find('#') != std::string::npos) return 400;
  std::size_t mark = target.find('?');
  request.path = target.substr(0, mark);
  if (mark != std::string::npos) {
    request.has_query = true;
    request.query = target.substr(mark + 1);
  }
  bool is_asterisk = target == "*" && *method == Method::options;
  return request.path.starts_with('/') || is_asterisk ? 0 : 400;
}

// Where the message ends must have exactly one reading.
int RequestParser::Impl::check_framing() {
  const Headers& headers = request.headers;
  std::size_t lengths = headers.count("content-length");
  std::size_t encodings = headers.count("transfer-encoding");
  if (lengths > 1 || (lengths == 1 && encodings > 0)) return 400;
  if (encodings > 0) {
    if (!is_http_1_1 || encodings > 1) return 400;
    if (!equals_ignoring_case(*headers.find("transfer-encoding"), "chunked")) return 501;
  }
  if (lengths == 1) {
    const std::string& text = *headers.find("content-length");
    bool is_number =
        !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number) return 400;
    if (parser.content_length > limits.max_body_bytes) return 413;
  }
  return 0;
}

int RequestParser::Impl::check_head() {
  if (int status = check_target()) return status;
  if (int status = check_framing()) return status;
  std::size_t hosts = request.headers.count("host");
  if (hosts > 1 || (hosts == 0 && is_http_1_1)) return 400;
  if (hosts == 1 && !is_host_field(request.host())) return 400;
  if (const std::string* expect = request.headers.find("expect")) {
    if (request.headers.count("expect") > 1 || !equals_ignoring_case(*expect, "100-continue")) return 417;
  }
  request.is_upgrade =
      request.headers.find("upgrade") != nullptr && request.headers.has_token("connection", "upgrade");
  return 0;
}

struct ParserGlue {
  static RequestParser& self(llhttp_t* p) { return *static_cast<RequestParser*>(p->data); }

  // Counts bytes of the request line and fields; false when the limit is passed.
  static bool charge(RequestParser& r, std::size_t n) {
    r.impl_->field_bytes += n;
    if (r.impl_->field_bytes > r.impl_->limits.max_header_bytes) {
      r.reject(431);
      return false;
    }
    return true;
  }
  static int on_url(llhttp_t* p, const char* at, size_t n) {
    RequestParser& r = self(p);
    if (!charge(r, n)) return -1;
    r.impl_->target.append(at, n);
    r.impl_->held_bytes += n;
    if (r.impl_->target.size() > r.impl_->limits.max_target_bytes) {
      r.reject(414);
      return -1;
    }
    return 0;
  }
  static int on_field(llhttp_t* p, const char* at, size_t n) {
    RequestParser& r = self(p);
    RequestParser::Impl& impl = *r.impl_;
    if (!charge(r, n)) return -1;
    if (impl.is_after_head) return 0;  // trailers are counted and dropped
    if (impl.request.headers.size() == 0 || impl.is_value) {
      if (impl.request.headers.size() == impl.limits.max_header_count) {
        r.reject(431);
        return -1;
      }
      impl.request.headers.add({}, {});
      impl.is_value = false;
      impl.held_bytes += kFieldOverheadBytes;
    }
    impl.request.headers.back().name.append(at, n);
    impl.held_bytes += n;
    return 0;
  }
  static int on_value(llhttp_t* p, const char* at, size_t n) {
    RequestParser& r = self(p);
    if (!charge(r, n)) return -1;
    if (r.impl_->is_after_head) return 0;
    r.impl_->request.headers.back().value.append(at, n);
    r.impl_->held_bytes += n;
    return 0;
  }
  static int on_value_complete(llhttp_t* p) {
    RequestParser& r = self(p);
    if (!charge(r, 4)) return -1;  // ": " and the line end
    if (r.impl_->is_after_head) return 0;
    r.impl_->is_value = true;
    std::string& value = r.impl_->request.headers.back().value;
    std::size_t last = value.find_last_not_of(" \t");
    value.resize(last == std::string::npos ? 0 : last + 1);
    return 0;
  }
  static int on_head(llhttp_t* p) {
    RequestParser& r = self(p);
    r.impl_->is_after_head = true;
    if (int status = r.impl_->check_head()) {
      r.reject(status);
      return -1;
    }
    r.state_ = RequestParser::State::body;
    return 0;
  }
  static int on_body(llhttp_t* p, const char* at, size_t n) {
    RequestParser& r = self(p);
    std::string& body = r.impl_->request.body;
    if (n > r.impl_->limits.max_body_bytes - body.size()) {
      r.reject(413);
      return -1;
    }
    body.append(at, n);
    r.impl_->held_bytes += n;
    return 0;
  }
  static int on_complete(llhttp_t* p) {
    self(p).state_ = RequestParser::State::ready;
    return HPE_PAUSED;
  }
  static llhttp_settings_t make_settings() {
    llhttp_settings_t s;
    llhttp_settings_init(&s);
    s.on_url = on_url;
    s.on_header_field = on_field;
    s.on_header_value = on_value;
    s.on_header_value_complete = on_value_complete;
    s.on_headers_complete = on_head;
    s.on_body = on_body;
    s.on_message_complete = on_complete;
    return s;
  }
  static const llhttp_settings_t kSettings;
};
const llhttp_settings_t ParserGlue::kSettings = ParserGlue::make_settings();

RequestParser::RequestParser(const ParserLimits& limits) : impl_(std::make_unique<Impl>()) {
  impl_->limits = limits;
  llhttp_init(&impl_->parser, HTTP_REQUEST, &ParserGlue::kSettings);
  impl_->parser.data = this;
}

RequestParser::~RequestParser() = default;

void RequestParser::reject(int status) {
  state_ = State::failed;
  error_status_ = status;
}

std::size_t RequestParser::feed(std::span<const uint8_t> data) {
  TMESH_ASSERT(state_ == State::idle || state_ == State::head || state_ == State::body);
  if (data.empty()) return 0;
  bool was_in_head = state_ != State::body;
  if (state_ == State::idle) state_ = State::head;
  const char* begin = reinterpret_cast<const char*>(data.data());
  llhttp_errno_t error = llhttp_execute(&impl_->parser, begin, data.size());
  if (state_ == State::failed) return 0;
  if (state_ == State::ready) {
    TMESH_ASSERT(error == HPE_PAUSED || error == HPE_PAUSED_UPGRADE);
    return static_cast<std::size_t>(llhttp_get_error_pos(&impl_->parser) - begin);
  }
  if (error != HPE_OK) {
    reject(error == HPE_INVALID_VERSION ? 505 : 400);
    return 0;
  }
  // White space and line ends reach no callback; they count here.
  if (state_ == State::head) {
    impl_->head_wire_bytes += data.size();
    if (impl_->head_wire_bytes > impl_->limits.max_header_bytes) reject(431);
  } else if (!was_in_head) {
    impl_->body_wire_bytes += data.size();
    std::size_t allowed = impl_->limits.max_body_bytes * kBodyWireFactor + kBodyWireFloorBytes;
    if (impl_->body_wire_bytes > allowed) reject(413);
  }
  return data.size();
}

Request& RequestParser::request() {
  return impl_->request;
}

bool RequestParser::keeps_alive() const {
  // HTTP/1.0 clients that ask for keep-alive are rare; closing is always right there.
  return impl_->is_http_1_1 && !impl_->request.headers.has_token("connection", "close");
}

bool RequestParser::wants_continue() const {
  return state_ == State::body && impl_->is_http_1_1 && impl_->request.body.empty() &&
         impl_->request.headers.find("expect") != nullptr;
}

void RequestParser::next() {
  TMESH_ASSERT(state_ == State::ready);
  impl_->reset_request();
  state_ = State::idle;
  llhttp_init(&impl_->parser, HTTP_REQUEST, &ParserGlue::kSettings);
  impl_->parser.data = this;
}

std::size_t RequestParser::held_bytes() const {
  return impl_->held_bytes;
}

}  // namespace tmesh::http
