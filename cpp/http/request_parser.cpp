#include "cpp/http/request_parser.hpp"

#include <llhttp.h>

#include <algorithm>
#include <optional>

#include "core/base/check.h"
#include "cpp/http/field_reader.hpp"

namespace tmesh::http {

namespace {

// Chunk framing and extensions are not kept but cost time: a chunked body may take
// this many bytes on the wire for each byte allowed (one-byte chunks take six), plus
// a floor for small limits.
constexpr std::size_t kBodyWireFactor = 8;
constexpr std::size_t kBodyWireFloorBytes = 65536;

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
  explicit Impl(const ParserLimits& l) : limits(l), fields(l.max_header_bytes, l.max_header_count) {}

  ParserLimits limits;
  llhttp_t parser{};
  FieldReader fields;
  Request request;
  std::string target;
  bool is_http_1_1 = false;
  std::size_t head_wire_bytes = 0;
  std::size_t body_wire_bytes = 0;

  void reset_request() {
    request = Request{};
    target.clear();
    fields.reset();
    is_http_1_1 = false;
    head_wire_bytes = body_wire_bytes = 0;
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

int RequestParser::Impl::check_framing() {
  switch (framing_of(request.headers, is_http_1_1)) {
    case Framing::malformed:
      return 400;
    case Framing::unknown:
      return 501;
    case Framing::length:
      return parser.content_length > limits.max_body_bytes ? 413 : 0;
    case Framing::none:
    case Framing::chunked:
      break;
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

  static int too_large_unless(RequestParser& r, bool is_within) {
    if (!is_within) r.reject(431);
    return is_within ? 0 : -1;
  }
  static int on_url(llhttp_t* p, const char* at, size_t n) {
    RequestParser& r = self(p);
    if (!r.impl_->fields.charge(n)) return too_large_unless(r, false);
    r.impl_->target.append(at, n);
    if (r.impl_->target.size() > r.impl_->limits.max_target_bytes) {
      r.reject(414);
      return -1;
    }
    return 0;
  }
  static int on_field(llhttp_t* p, const char* at, size_t n) {
    RequestParser::Impl& impl = *self(p).impl_;
    return too_large_unless(self(p), impl.fields.on_name(impl.request.headers, at, n));
  }
  static int on_value(llhttp_t* p, const char* at, size_t n) {
    RequestParser::Impl& impl = *self(p).impl_;
    return too_large_unless(self(p), impl.fields.on_value(impl.request.headers, at, n));
  }
  static int on_value_complete(llhttp_t* p) {
    RequestParser::Impl& impl = *self(p).impl_;
    return too_large_unless(self(p), impl.fields.on_value_complete(impl.request.headers));
  }
  static int on_head(llhttp_t* p) {
    RequestParser& r = self(p);
    r.impl_->fields.end_head();
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

RequestParser::RequestParser(const ParserLimits& limits) : impl_(std::make_unique<Impl>(limits)) {
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
  return impl_->target.size() + impl_->fields.held_bytes() + impl_->request.body.size();
}

}  // namespace tmesh::http
