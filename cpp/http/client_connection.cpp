#include "cpp/http/client_connection.hpp"

#include <utility>

#include "core/base/check.h"
#include "core/wire/tls.h"

namespace tmesh::http {

namespace {

const char* dial_text(const DialResult& result) {
  if (result.failed_in_dns) return "the name does not resolve";
  switch (result.status.code) {
    case TMESH_E_REFUSED:
      return "connections are refused";
    case TMESH_E_TIMEOUT:
      return "no answer from the address";
    case TMESH_E_NET_UNREACHABLE:
    case TMESH_E_HOST_UNREACHABLE:
      return "no route";
    default:
      return "cannot connect";
  }
}

const char* verify_text(tmesh_tls_verify_error error) {
  switch (error) {
    case TMESH_TLS_VERIFY_MISSING:
      return "no certificate";
    case TMESH_TLS_VERIFY_UNTRUSTED:
      return "the certificate is not signed by a trusted CA";
    case TMESH_TLS_VERIFY_EXPIRED:
      return "the certificate is expired or not yet valid";
    case TMESH_TLS_VERIFY_NAME:
      return "the certificate is for another name";
    default:
      return "the certificate is not acceptable";
  }
}

}  // namespace

ClientConnection::ClientConnection(net::Loop& loop, Timers& timers, Owner& owner,
                                   const ResponseLimits& limits)
    : loop_(loop), timers_(timers), owner_(owner), parser_(limits) {}

ClientConnection::~ClientConnection() = default;

const char* ClientConnection::stage() const {
  switch (phase_) {
    case Phase::dialing:
      return "connect";
    case Phase::handshake:
      return "tls";
    default:
      return is_written_ ? "response" : "request";
  }
}

void ClientConnection::open(Dialer& dialer, const Target& target, std::string_view request, bool is_head,
                            uint64_t timeout_us) {
  host_ = target.host;
  tls_ = target.tls;
  request_ = request;
  parser_.next(is_head);
  DialRequest dial;
  dial.host = host_;
  dial.port = target.port;
  dial.timeout_us = timeout_us;
  auto dialed = dialer.dial(dial, Delegate<void(DialResult)>::bind<&ClientConnection::on_dialed>(this));
  if (dialed) {
    step_ = std::move(*dialed);
    return;
  }
  failure_ = {dialed.error().code, "dns", "the name cannot be looked up"};
  step_ = timers_.after(0, Delegate<void()>::bind<&ClientConnection::deliver_failure>(this));
}

void ClientConnection::deliver_failure() {
  step_.release();
  owner_.on_failure(*this, failure_, false);
}

void ClientConnection::fail(const char* stage, tmesh_code code, const char* text) {
  const bool is_untouched =
      was_used() && phase_ == Phase::request && parser_.state() == ResponseParser::State::idle;
  step_.cancel();
  transport_.close(false);
  owner_.on_failure(*this, {code, stage, text}, is_untouched);
}

void ClientConnection::on_dialed(DialResult result) {
  step_.release();
  if (!tmesh_is_ok(result.status)) {
    return fail(result.failed_in_dns ? "dns" : "connect", static_cast<tmesh_code>(result.status.code),
                dial_text(result));
  }
  phase_ = Phase::handshake;
  auto transport = net::Transport::connect(loop_, result.fd, tls_, host_.c_str(), *this);
  if (!transport) return fail("connect", transport.error().code, "no resources for the connection");
  transport_ = std::move(*transport);
}

void ClientConnection::on_ready(tmesh_status status) {
  if (!tmesh_is_ok(status)) {
    const bool is_verify = status.code == TMESH_E_TLS_VERIFY && transport_.tls() != nullptr;
    return fail("tls", static_cast<tmesh_code>(status.code),
                is_verify ? verify_text(tmesh_tls_verify_result(transport_.tls())) : "the handshake failed");
  }
  phase_ = Phase::request;
  if (!write()) return fail("request", TMESH_E_CLOSED, "the connection broke");
  transport_.read(true);
}

bool ClientConnection::write() {
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(request_.data()), request_.size());
  is_written_ = false;
  const tmesh_status st = transport_.try_write(bytes, &is_written_);
  transport_.ack_at_once();  // simple servers write head and body apart, and wait in between
  return tmesh_is_ok(st);
}

bool ClientConnection::send(std::string_view request, bool is_head) {
  TMESH_ASSERT(phase_ == Phase::idle);
  step_.cancel();
  request_ = request;
  parser_.next(is_head);
  phase_ = Phase::request;
  return write();
}

void ClientConnection::end_after(uint64_t idle_us) {
  step_ = timers_.after(idle_us, Delegate<void()>::bind<&ClientConnection::on_idle_timeout>(this));
}

void ClientConnection::on_idle_timeout() {
  step_.release();
  owner_.on_idle_over(*this);
}

void ClientConnection::on_written() {
  is_written_ = true;
}

void ClientConnection::on_data(std::span<uint8_t> data) {
  if (phase_ == Phase::idle) return owner_.on_idle_over(*this);
  const std::size_t used = parser_.feed(data);
  if (parser_.state() == ResponseParser::State::failed) {
    return fail("response", TMESH_E_HTTP, "the answer is not acceptable HTTP");
  }
  if (parser_.state() == ResponseParser::State::ready) answer(used == data.size());
}

void ClientConnection::answer(bool is_clean) {
  const bool is_reusable = is_clean && is_written_ && parser_.keeps_alive();
  Response response = std::move(parser_.response());
  request_ = {};
  answers_count_++;
  phase_ = Phase::idle;
  if (is_reusable) parser_.next();
  owner_.on_answer(*this, std::move(response), is_reusable);
}

void ClientConnection::on_eof() {
  if (phase_ == Phase::idle) return owner_.on_idle_over(*this);
  if (phase_ == Phase::handshake) return fail("tls", TMESH_E_CLOSED, "the connection was closed");
  if (parser_.state() == ResponseParser::State::idle) {
    return fail(stage(), TMESH_E_CLOSED, "the connection was closed");
  }
  parser_.finish();
  if (parser_.state() == ResponseParser::State::ready) return answer(false);
  fail("response", TMESH_E_TRUNCATED, "the answer was cut off");
}

void ClientConnection::on_error(tmesh_status status) {
  if (phase_ == Phase::idle) return owner_.on_idle_over(*this);
  fail(stage(), static_cast<tmesh_code>(status.code), "the connection broke");
}

}  // namespace tmesh::http
