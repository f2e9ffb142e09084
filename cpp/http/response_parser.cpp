#include "cpp/http/response_parser.hpp"

#include <llhttp.h>

#include "core/base/check.h"
#include "cpp/http/field_reader.hpp"

namespace tmesh::http {

namespace {

// As for requests: what chunks of one byte take on the wire, and a floor for small limits.
constexpr std::size_t kBodyWireFactor = 8;
constexpr std::size_t kBodyWireFloorBytes = 65536;
// "HTTP/1.1 200 " and the line end, so that interim answers without fields cost something.
constexpr std::size_t kStatusLineBytes = 15;
// What llhttp_settings_t::on_headers_complete returns for "no body follows".
constexpr int kNoBody = 1;

}  // namespace

struct ResponseParser::Impl {
  explicit Impl(const ResponseLimits& l) : limits(l), fields(l.max_header_bytes, l.max_header_count) {}

  ResponseLimits limits;
  llhttp_t parser{};
  FieldReader fields;
  Response response;
  bool is_answer_to_head = false;
  bool is_interim = false;
  bool is_http_1_1 = false;
  bool is_until_end = false;  // the end of the connection ends the body
  bool is_cut = false;
  std::size_t head_wire_bytes = 0;
  std::size_t body_wire_bytes = 0;

  // -1: to be refused; otherwise what llhttp wants to hear.
  int check_head();
};

int ResponseParser::Impl::check_head() {
  is_http_1_1 = parser.http_minor == 1;
  if (parser.http_major != 1 || parser.http_minor > 1) return -1;
  const int status = response.status = parser.status_code;
  if (status < 100 || status > 599 || status == 101) return -1;
  is_interim = status < 200;
  if (is_interim) return kNoBody;
  const Framing framing = framing_of(response.headers, is_http_1_1);
  if (framing == Framing::malformed || framing == Framing::unknown) return -1;
  if (is_answer_to_head || status == 204 || status == 304) return kNoBody;
  is_until_end = framing == Framing::none;
  return 0;
}

struct ResponseParserGlue {
  static ResponseParser& self(llhttp_t* p) { return *static_cast<ResponseParser*>(p->data); }
  static ResponseParser::Impl& impl(llhttp_t* p) { return *self(p).impl_; }
  static int refused_unless(bool is_good) { return is_good ? 0 : -1; }

  static int on_status(llhttp_t* p, const char*, size_t n) {
    return refused_unless(impl(p).fields.charge(n));
  }
  static int on_name(llhttp_t* p, const char* at, size_t n) {
    return refused_unless(impl(p).fields.on_name(impl(p).response.headers, at, n));
  }
  static int on_value(llhttp_t* p, const char* at, size_t n) {
    return refused_unless(impl(p).fields.on_value(impl(p).response.headers, at, n));
  }
  static int on_value_complete(llhttp_t* p) {
    return refused_unless(impl(p).fields.on_value_complete(impl(p).response.headers));
  }
  static int on_head(llhttp_t* p) {
    ResponseParser::Impl& i = impl(p);
    if (!i.fields.charge(kStatusLineBytes)) return -1;
    const int said = i.check_head();
    if (said < 0 || i.is_interim) return said;
    i.fields.end_head();
    self(p).state_ = ResponseParser::State::body;
    return said;
  }
  static int on_body(llhttp_t* p, const char* at, size_t n) {
    ResponseParser::Impl& i = impl(p);
    std::string& body = i.response.body;
    const std::size_t room = i.limits.max_body_bytes - body.size();
    body.append(at, std::min(n, room));
    if (n <= room) return 0;
    i.is_cut = true;
    self(p).state_ = ResponseParser::State::ready;
    return HPE_USER;
  }
  static int on_complete(llhttp_t* p) {
    if (!impl(p).is_interim) self(p).state_ = ResponseParser::State::ready;
    return HPE_PAUSED;
  }
  static llhttp_settings_t make_settings() {
    llhttp_settings_t s;
    llhttp_settings_init(&s);
    s.on_status = on_status;
    s.on_header_field = on_name;
    s.on_header_value = on_value;
    s.on_header_value_complete = on_value_complete;
    s.on_headers_complete = on_head;
    s.on_body = on_body;
    s.on_message_complete = on_complete;
    return s;
  }
  static const llhttp_settings_t kSettings;

  // To the beginning of a message, behind an interim one or another response.
  static void begin(ResponseParser& r) {
    ResponseParser::Impl& i = *r.impl_;
    llhttp_init(&i.parser, HTTP_RESPONSE, &kSettings);
    i.parser.data = &r;
    i.response = Response{};
    i.fields.begin_head();
    i.is_interim = false;
  }
};
const llhttp_settings_t ResponseParserGlue::kSettings = ResponseParserGlue::make_settings();

ResponseParser::ResponseParser(const ResponseLimits& limits) : impl_(std::make_unique<Impl>(limits)) {
  ResponseParserGlue::begin(*this);
}

ResponseParser::~ResponseParser() = default;

std::size_t ResponseParser::feed(std::span<const uint8_t> data) {
  TMESH_ASSERT(state_ != State::ready && state_ != State::failed);
  if (data.empty()) return 0;
  Impl& i = *impl_;
  const bool was_in_body = state_ == State::body;
  if (state_ == State::idle) state_ = State::head;
  const char* const begin = reinterpret_cast<const char*>(data.data());
  std::size_t used = 0;
  while (used < data.size()) {
    const llhttp_errno_t error = llhttp_execute(&i.parser, begin + used, data.size() - used);
    if (state_ == State::ready && i.is_cut) return data.size();
    if (error == HPE_OK) break;
    if (error != HPE_PAUSED) {
      state_ = State::failed;
      return 0;
    }
    used = static_cast<std::size_t>(llhttp_get_error_pos(&i.parser) - begin);
    if (state_ == State::ready) return used;
    ResponseParserGlue::begin(*this);
  }
  // White space and line ends reach no callback; they count here.
  if (state_ == State::head) {
    i.head_wire_bytes += data.size();
    if (i.head_wire_bytes > i.limits.max_header_bytes) state_ = State::failed;
  } else if (was_in_body) {
    i.body_wire_bytes += data.size();
    const std::size_t allowed = i.limits.max_body_bytes * kBodyWireFactor + kBodyWireFloorBytes;
    if (i.body_wire_bytes > allowed) state_ = State::failed;
  }
  return data.size();
}

void ResponseParser::finish() {
  TMESH_ASSERT(state_ != State::ready && state_ != State::failed);
  state_ = state_ == State::body && impl_->is_until_end ? State::ready : State::failed;
}

Response& ResponseParser::response() {
  return impl_->response;
}

bool ResponseParser::keeps_alive() const {
  const Impl& i = *impl_;
  // HTTP/1.0 servers that keep a connection open are rare; closing is always right there.
  return i.is_http_1_1 && !i.is_until_end && !i.is_cut &&
         !i.response.headers.has_token("connection", "close");
}

bool ResponseParser::is_cut() const {
  return impl_->is_cut;
}

void ResponseParser::next(bool is_head) {
  TMESH_ASSERT(state_ == State::ready || state_ == State::idle);
  ResponseParserGlue::begin(*this);
  Impl& i = *impl_;
  i.fields.reset();
  i.is_answer_to_head = is_head;
  i.is_http_1_1 = i.is_until_end = i.is_cut = false;
  i.head_wire_bytes = i.body_wire_bytes = 0;
  state_ = State::idle;
}

std::size_t ResponseParser::held_bytes() const {
  return impl_->fields.held_bytes() + impl_->response.body.size();
}

}  // namespace tmesh::http
