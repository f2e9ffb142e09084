#include "cpp/session/connector.hpp"

#include <utility>

#include "core/base/check.h"
#include "cpp/base/random.hpp"

namespace tmesh::session {
namespace {

const char* dial_text(const DialResult& result) {
  if (result.failed_in_dns) return "the server's name does not resolve";
  switch (result.status.code) {
    case TMESH_E_REFUSED:
      return "the server refuses connections on this port";
    case TMESH_E_TIMEOUT:
      return "no answer from the server's address";
    case TMESH_E_NET_UNREACHABLE:
    case TMESH_E_HOST_UNREACHABLE:
      return "no route to the server";
    default:
      return "cannot connect to the server";
  }
}

const char* verify_text(tmesh_tls_verify_error error) {
  switch (error) {
    case TMESH_TLS_VERIFY_MISSING:
      return "the server sent no certificate";
    case TMESH_TLS_VERIFY_UNTRUSTED:
      return "the server's certificate is not signed by a trusted CA";
    case TMESH_TLS_VERIFY_EXPIRED:
      return "the server's certificate is expired or not yet valid (check the clock too)";
    case TMESH_TLS_VERIFY_NAME:
      return "the server's certificate is for another name";
    default:
      return "the server's certificate is not acceptable";
  }
}

const char* http_text(int status, tmesh_ws_upgrade_error error) {
  switch (status) {
    case 401:
      return "the server does not accept the token";
    case 403:
      return "the server refuses the token, host or origin";
    case 404:
      return "there is no TunnelMesh server at this path";
    case 502:
    case 503:
    case 504:
      return "a proxy in front of the server cannot reach it";
    default:
      return tmesh_ws_upgrade_error_text(error);
  }
}

}  // namespace

Connector::Connector(net::Loop& loop, Timers& timers, Dialer& dialer, const ServerEndpoint& endpoint,
                     bool has_offer, uint32_t offered, Done done)
    : loop_(loop),
      timers_(timers),
      dialer_(dialer),
      endpoint_(endpoint),
      has_offer_(has_offer),
      offered_(offered),
      done_(done) {
  // The token must never leave in clear because a context was forgotten.
  TMESH_ASSERT(!endpoint_.url.is_tls || endpoint_.tls != nullptr);
}

Connector::~Connector() {
  secure_wipe(request_);
}

void Connector::start() {
  timeout_ = timers_.after(kTimeout_us, Delegate<void()>::bind<&Connector::on_timeout>(this));
  DialRequest request;
  request.host = endpoint_.url.host;
  request.port = endpoint_.url.port;
  request.timeout_us = kTimeout_us;
  auto dial = dialer_.dial(request, Delegate<void(DialResult)>::bind<&Connector::on_dialed>(this));
  if (!dial) {
    failure_ = {tmesh_err_session(dial.error().code), "dns", "the server's name cannot be looked up", 0, {}};
    step_ = timers_.after(0, Delegate<void()>::bind<&Connector::deliver_failure>(this));
    return;
  }
  step_ = std::move(*dial);
}

// Of the stage that ends here; the next one begins.
uint64_t Connector::stage_us() {
  const uint64_t now_us = timers_.now_us();
  return now_us - std::exchange(stage_began_us_, now_us);
}

void Connector::deliver_failure() {
  timeout_.cancel();
  done_(std::unexpected(failure_));
}

void Connector::fail(const char* stage, tmesh_status status, const char* text, int http_status) {
  step_.cancel();
  transport_.close(false);
  failure_ = {status, stage, text, http_status, times_};
  deliver_failure();
}

void Connector::on_timeout() {
  fail(transport_ ? (is_upgrading_ ? "upgrade" : "tls") : "connect", tmesh_err_session(TMESH_E_TIMEOUT),
       "the server does not answer in time");
}

void Connector::on_dialed(DialResult result) {
  step_.release();
  times_.dns_us = result.dns_us;
  times_.connect_us = result.connect_us;
  stage_began_us_ = timers_.now_us();
  if (!tmesh_is_ok(result.status)) {
    return fail(result.failed_in_dns ? "dns" : "connect",
                tmesh_err_session(static_cast<tmesh_code>(result.status.code)), dial_text(result));
  }
  auto transport = net::Transport::connect(loop_, result.fd, endpoint_.url.is_tls ? endpoint_.tls : nullptr,
                                           endpoint_.url.host.c_str(), *this);
  if (!transport) {
    return fail("connect", tmesh_err_session(transport.error().code), "no resources for the connection");
  }
  transport_ = std::move(*transport);
}

void Connector::on_ready(tmesh_status status) {
  if (!tmesh_is_ok(status)) {
    const bool is_verify = status.code == TMESH_E_TLS_VERIFY && transport_.tls() != nullptr;
    return fail("tls", status,
                is_verify ? verify_text(tmesh_tls_verify_result(transport_.tls()))
                          : "the TLS handshake with the server failed");
  }
  if (endpoint_.url.is_tls) times_.tls_us = stage_us();
  is_upgrading_ = true;
  if (has_offer_) {
    offer_count_ = tmesh_subprotocol_offers(offered_, offer_ids_);
    for (size_t i = 0; i < offer_count_; i++) offers_[i] = tmesh_subprotocol_name(offer_ids_[i]);
  }
  uint8_t key[TMESH_WS_KEY_BYTES];
  random_bytes(key);
  const std::string host = url_authority(endpoint_.url);
  const std::string origin = (endpoint_.url.is_tls ? "https://" : "http://") + host;
  response_.reset(tmesh_ws_response_new(key, offers_, offer_count_));
  tmesh_ws_request request{};
  request.path = endpoint_.url.path.c_str();
  request.host = host.c_str();
  request.origin = origin.c_str();
  request.token = endpoint_.token->reveal().data();
  request.key = key;
  request.protocols = offers_;
  request.protocol_count = offer_count_;
  request_.resize(TMESH_WS_UPGRADE_MAX_BYTES);
  size_t len = 0;
  const tmesh_status built = tmesh_ws_request_build(&request, request_.data(), request_.size(), &len);
  if (!response_ || !tmesh_is_ok(built)) {
    return fail("upgrade", tmesh_err_session(TMESH_E_INVALID),
                "the configured token or URL holds a byte that HTTP cannot carry");
  }
  const tmesh_status written =
      transport_.try_write({reinterpret_cast<const uint8_t*>(request_.data()), len}, &is_request_sent_);
  if (!tmesh_is_ok(written)) return fail("upgrade", written, "the connection broke");
  if (is_request_sent_) secure_wipe(request_);
  transport_.read(true);
}

void Connector::on_written() {
  is_request_sent_ = true;
  secure_wipe(request_);
}

void Connector::on_data(std::span<uint8_t> data) {
  if (!is_upgrading_) return;
  size_t used = 0;
  const tmesh_status st = tmesh_ws_response_feed(response_.get(), data.data(), data.size(), &used);
  if (st.code == TMESH_E_AGAIN) return;
  if (!tmesh_is_ok(st)) {
    const int http_status = tmesh_ws_response_http_status(response_.get());
    return fail("upgrade", st, http_text(http_status, tmesh_ws_response_error(response_.get())), http_status);
  }
  if (!is_request_sent_) {
    // Its bytes are still ours; and an answer to half a request is none.
    return fail("upgrade", tmesh_err_session(TMESH_E_HTTP),
                "the server answers before it has read the request");
  }
  times_.upgrade_us = stage_us();
  Connected connected;
  connected.times = times_;
  const int selected = tmesh_ws_response_protocol(response_.get());
  if (selected >= 0) connected.subprotocol = offer_ids_[selected];
  connected.early.assign(data.begin() + static_cast<std::ptrdiff_t>(used), data.end());
  transport_.read(false);
  transport_.set_handler(nullptr);
  connected.transport = std::move(transport_);
  timeout_.cancel();
  done_(std::move(connected));
}

void Connector::on_eof() {
  fail(is_upgrading_ ? "upgrade" : "tls", tmesh_err_session(TMESH_E_CLOSED),
       "the server closed the connection");
}

void Connector::on_error(tmesh_status status) {
  fail(is_upgrading_ ? "upgrade" : "tls", status, "the connection broke");
}

}  // namespace tmesh::session
