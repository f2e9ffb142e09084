#include "cpp/client/socks5_local.hpp"

#include <utility>

#include "core/base/chunkq.h"
#include "cpp/base/log.hpp"

namespace tmesh::client {
namespace {

// A handshake is at most a few hundred bytes; what follows it is early data of the
// browser, of which this much waits while the open is under way.
constexpr std::size_t kOpeningReadMax_bytes = 16'384;

}  // namespace

Socks5Local::Socks5Local(Socks5Entry& entry)
    : entry_(entry), handshake_(std::make_unique<Socks5Handshake>(entry.login())) {}

void Socks5Local::start(int fd) {
  tcp_ = net::Tcp::open_prepared(entry_.loop(), fd, *this);
  timeout_ = entry_.loop().after(entry_.deps().handshake_timeout_us,
                                 Delegate<void()>::bind<&Socks5Local::on_timeout>(this));
  tcp_.read(kOpeningReadMax_bytes);
}

void Socks5Local::on_readable() {
  // In `opening` the bytes wait in the socket's queue for the flow.
  while (phase_ == Phase::handshake) {
    tmesh_span span{};
    if (tmesh_chunkq_peek(tcp_.in(), &span, 1) == 0) return;
    const std::size_t used = handshake_->feed({span.data, span.len_bytes});
    tmesh_chunkq_consume(tcp_.in(), used);
    if (!send_reply()) return entry_.remove(*this);
    if (handshake_->state() == Socks5Handshake::State::failed) return end();
    if (handshake_->state() == Socks5Handshake::State::ready) return open();
  }
}

bool Socks5Local::send_reply() {
  const auto reply = handshake_->reply();
  if (reply.empty()) return true;
  const tmesh_status st = tcp_.send(reply);
  handshake_->reply_sent();
  return tmesh_is_ok(st);
}

void Socks5Local::open() {
  timeout_.cancel();
  phase_ = Phase::opening;
  OpenRequest request;
  request.host = handshake_->host();
  request.port = handshake_->port();
  opening_ = entry_.make_opening(Opening::Done::bind<&Socks5Local::on_opened>(this));
  const Socks5Login* const login = entry_.login();  // which is what was shown
  opening_->start(request,
                  login == nullptr ? ShownLogin{} : ShownLogin{login->username, login->password.reveal()});
}

void Socks5Local::on_opened(const tmesh_open_result& result) {
  entry_.count(result);
  if (!result.accepted) return refuse(socks5_reply(result.code));
  if (!tmesh_is_ok(tcp_.send(Socks5Handshake::final_reply(kReplySucceeded)))) return entry_.remove(*this);
  phase_ = Phase::flowing;
  flow_.emplace(std::move(tcp_), opening_->take(),
                Delegate<void(tmesh_status)>::bind<&Socks5Local::on_flow_done>(this));
  handshake_.reset();
  opening_.reset();
  flow_->start();
}

void Socks5Local::on_flow_done(tmesh_status why) {
  entry_.log_flow(*flow_, why);
  entry_.remove(*this);
}

void Socks5Local::refuse(Socks5Reply reply) {
  if (!tmesh_is_ok(tcp_.send(Socks5Handshake::final_reply(reply)))) return entry_.remove(*this);
  end();
}

void Socks5Local::end() {
  tcp_.close(true);
  entry_.remove(*this);
}

void Socks5Local::on_timeout() {
  log::debug("handshake_timeout", {{"entry", entry_.tunnel().name}});
  entry_.remove(*this);
}

void Socks5Local::on_eof() {
  // Half a handshake can never be completed; a client that has sent its request and
  // its data may already be done sending, which the flow finds in the socket.
  if (phase_ == Phase::handshake) end();
}

void Socks5Local::on_written(std::size_t, bool) {}

void Socks5Local::on_broken(tmesh_status) {
  entry_.remove(*this);
}

}  // namespace tmesh::client
