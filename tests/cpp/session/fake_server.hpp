// What a TunnelMesh server looks like from outside, on the test's own loop: it accepts,
// keeps the request, answers what the test says and may become the acceptor of a link.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/mux/mux.h"
#include "core/proto/capability.h"
#include "core/wire/ws_upgrade.h"
#include "cpp/base/dial.hpp"
#include "cpp/net/link.hpp"
#include "cpp/net/listener.hpp"
#include "tests/cpp/net/loop_fixture.hpp"

namespace tmesh::test {

inline tmesh_mux_config mux_config(bool is_opener, bool is_strict = true, bool has_windows = true) {
  tmesh_mux_config c{};
  c.is_opener = is_opener;
  c.has_open_result = is_strict;
  c.has_flow_control = has_windows;
  c.resets_unknown_data = !is_opener;
  c.initial_window_bytes = TMESH_WINDOW_INITIAL_BYTES;
  c.window_threshold_bytes = TMESH_WINDOW_THRESHOLD_BYTES;
  c.inbound_max_bytes = 262144;
  c.outbound_max_bytes = 524288;
  c.streams_max = 1024;
  return c;
}

// A protocol frame as an unmasked WebSocket message.
inline std::string raw_frame(uint8_t type, std::string_view payload = {}, uint32_t stream_id = 0,
                             uint32_t window_bytes = 0) {
  const std::size_t message_bytes = TMESH_FRAME_HEADER_BYTES + payload.size();
  std::string out(1, '\x82');
  if (message_bytes < 126) {
    out += static_cast<char>(message_bytes);
  } else {
    out += {'\x7e', static_cast<char>(message_bytes >> 8), static_cast<char>(message_bytes)};
  }
  const std::size_t header_at = out.size();
  out.resize(header_at + TMESH_FRAME_HEADER_BYTES);
  out.append(payload);
  tmesh_frame_header header{};
  header.type = type;
  header.stream_id = stream_id;
  header.window_bytes = window_bytes;
  header.length_bytes = static_cast<uint32_t>(payload.size());
  EXPECT_TRUE(
      tmesh_is_ok(tmesh_frame_header_encode(reinterpret_cast<uint8_t*>(out.data()) + header_at, &header)));
  return out;
}

// A window violation, which our own encoder would not write.
inline std::string raw_window_update_of_zero(uint32_t stream_id) {
  std::string out = raw_frame(TMESH_FRAME_WINDOW_UPDATE, {}, stream_id, 1);
  out.back() = '\0';
  return out;
}

// A stream at the accepting end: collects what arrives, writes what it is told.
// Of datagrams it takes and sends none: a test does that with the stream.
struct PeerStream {
  explicit PeerStream(tmesh_stream* s, const tmesh_open_stream& o) : stream(s), open(o) {
    tmesh_stream_attach(s, this, &PeerStream::on_event);
  }
  PeerStream(const PeerStream&) = delete;
  PeerStream& operator=(const PeerStream&) = delete;
  ~PeerStream() { release(); }

  void release() {
    if (stream != nullptr) tmesh_stream_release(std::exchange(stream, nullptr));
  }
  void answer(const tmesh_open_result& result) {
    tmesh_stream_answer(stream, &result);
    write_more();
  }
  void send(std::string_view text) {
    unsent.append(text);
    write_more();
  }
  void finish() {
    is_finish_wanted = true;
    write_more();
  }
  void write_more() {
    if (stream == nullptr || over || stream->is_datagram) return;
    unsent.erase(0, tmesh_stream_write(stream, unsent.data(), unsent.size()));
    if (unsent.empty() && is_finish_wanted) tmesh_stream_finish(stream);
  }
  static void on_event(void* user, tmesh_stream* s, unsigned events) {
    auto* self = static_cast<PeerStream*>(user);
    if ((events & TMESH_STREAM_EV_OVER) != 0) {
      self->over = s->over;
      return self->release();
    }
    if (self->is_reading && !s->is_datagram) self->take();
    self->write_more();
  }
  void take() {
    char buffer[4096];
    while (std::size_t n = tmesh_chunkq_read(&stream->in, buffer, sizeof buffer)) {
      received.append(buffer, n);
      if (credits) tmesh_stream_consumed(stream, n);
    }
    is_eof = stream->in_eof;
  }

  tmesh_stream* stream;
  const tmesh_open_stream open;
  std::string received;
  std::string unsent;
  bool is_reading = true;
  bool credits = true;
  bool is_eof = false;
  bool is_finish_wanted = false;
  std::optional<tmesh_status> over;
};

// One accepted connection.
class Peer final : net::TransportHandler, net::LinkHandler {
 public:
  Peer(net::Loop& loop, int fd, const net::TlsContext* tls) : loop_(loop) {
    transport = std::move(*net::Transport::accept(loop, fd, tls, *this));
    transport.read(true);
  }

  bool has_request() const { return bytes.find("\r\n\r\n") != std::string::npos; }
  // The value of a header field of the request, as it was written; "" when absent.
  std::string header(std::string_view name) const {
    const std::string key = "\r\n" + std::string(name) + ": ";
    const std::size_t at = bytes.find(key);
    if (at == std::string::npos) return "";
    return bytes.substr(at + key.size(), bytes.find("\r\n", at + 2) - at - key.size());
  }
  // One at a time; small enough for the kernel.
  void reply(std::string_view text) {
    out_ = text;
    bool is_done = false;
    const tmesh_status st =
        transport.try_write({reinterpret_cast<const uint8_t*>(out_.data()), out_.size()}, &is_done);
    EXPECT_TRUE(tmesh_is_ok(st) && is_done);
  }
  std::string switching(std::string_view subprotocol) const {
    const std::string key = header("Sec-WebSocket-Key");
    char accept[TMESH_WS_ACCEPT_TEXT_BYTES];
    tmesh_ws_accept_key(key.data(), key.size(), accept);
    std::string text =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Accept: ";
    text.append(accept).append("\r\n");
    if (!subprotocol.empty()) text.append("Sec-WebSocket-Protocol: ").append(subprotocol).append("\r\n");
    return text + "\r\n";
  }
  // 101, and from here on a link whose acceptor we are.
  void upgrade(tmesh_subprotocol subprotocol) {
    reply(switching(tmesh_subprotocol_name(subprotocol)));
    become_link(mux_config(false, tmesh_subprotocol_is_strict(subprotocol),
                           tmesh_subprotocol_has_windows(subprotocol)));
  }
  void become_link(const tmesh_mux_config& config, bool is_client = false) {
    link = std::move(*net::Link::open(loop_, std::move(transport), is_client, config, *this, {}));
  }
  void control(uint8_t type, std::string_view payload = {}) {
    EXPECT_TRUE(tmesh_is_ok(tmesh_mux_control(link.mux(), type, payload.data(), payload.size())));
  }

  net::Transport transport;
  net::Link link;
  std::string bytes;  // before the link: the request and whatever followed
  std::optional<tmesh_status> ready;
  bool is_eof = false;
  std::optional<tmesh_status> down;  // of the transport or of the link
  std::vector<std::pair<uint8_t, std::string>> controls;
  std::vector<std::string> pongs;
  std::size_t goaways_count = 0;
  std::list<PeerStream> streams;
  std::function<void(PeerStream&)> on_stream;  // called for a new one

 private:
  void on_ready(tmesh_status status) override { ready = status; }
  void on_data(std::span<uint8_t> data) override {
    bytes.append(reinterpret_cast<const char*>(data.data()), data.size());
  }
  void on_eof() override { is_eof = true; }
  void on_written() override {}
  void on_error(tmesh_status status) override { down = status; }

  void on_down(tmesh_status why) override { down = why; }
  void on_open(tmesh_stream* stream, const tmesh_open_stream& open) override {
    PeerStream& made = streams.emplace_back(stream, open);
    if (on_stream) on_stream(made);
  }
  tmesh_status on_control(const tmesh_frame_header& header, std::span<const uint8_t> payload) override {
    controls.emplace_back(header.type,
                          std::string(reinterpret_cast<const char*>(payload.data()), payload.size()));
    return tmesh_ok();
  }
  void on_pong(std::span<const uint8_t> payload) override {
    pongs.emplace_back(payload.begin(), payload.end());
  }
  void on_goaway() override { goaways_count++; }

  net::Loop& loop_;
  std::string out_;
};

class FakeServer {
 public:
  explicit FakeServer(net::Loop& loop, const net::TlsContext* tls = nullptr) : loop_(loop), tls_(tls) {
    listener_ = std::move(
        *net::Listener::open(loop, "127.0.0.1", 0,
                             {Delegate<void(int, const net::Peer&)>::bind<&FakeServer::on_accept>(this),
                              Delegate<void(tmesh_status)>::free<&FakeServer::on_broken>(nullptr)}));
  }
  uint16_t port() const { return listener_.port(); }
  std::size_t count() const { return peers.size(); }
  Peer& peer(std::size_t i) { return *peers.at(i); }
  Peer& last() { return *peers.back(); }
  bool has_request(std::size_t i) const { return i < peers.size() && peers[i]->has_request(); }
  void close() { listener_.close(); }

  std::vector<std::unique_ptr<Peer>> peers;
  std::function<void(Peer&)> on_peer;

 private:
  void on_accept(int fd, const net::Peer&) {
    peers.push_back(std::make_unique<Peer>(loop_, fd, tls_));
    if (on_peer) on_peer(*peers.back());
  }
  static void on_broken(void*, tmesh_status) { ADD_FAILURE() << "the listener broke"; }

  net::Loop& loop_;
  const net::TlsContext* tls_;
  net::Listener listener_;
};

// Connects to a port of this machine, or fails, or keeps quiet, as the test says.
class LoopbackDialer final : public Dialer {
 public:
  LoopbackDialer(net::Loop& loop, uint16_t port) : loop_(loop), port_(port) {}

  Result<Ticket> dial(const DialRequest& request, Delegate<void(DialResult)> done) override {
    EXPECT_FALSE(static_cast<bool>(done_)) << "two dials at once";
    count++;
    host = request.host;
    if (refusal != TMESH_OK) return fail(refusal, "refused by the test");
    done_ = done;
    id_++;
    if (!is_silent) later_ = loop_.after(0, Delegate<void()>::bind<&LoopbackDialer::deliver>(this));
    return Ticket(this, id_, [](void* owner, uint64_t id) {
      auto& self = *static_cast<LoopbackDialer*>(owner);
      if (id != self.id_ || !self.done_) return;
      self.done_ = {};
      self.later_.cancel();
      self.cancelled_count++;
    });
  }

  bool is_busy() const { return static_cast<bool>(done_); }

  std::size_t count = 0;
  std::size_t cancelled_count = 0;
  std::string host;
  tmesh_code refusal = TMESH_OK;     // of dial() itself
  std::optional<DialResult> result;  // instead of a connection
  bool is_silent = false;
  int send_buffer_bytes = 0;
  uint64_t dns_us = 0;
  uint64_t connect_us = 0;

 private:
  void deliver() {
    later_.release();
    DialResult out;
    if (result) {
      out = *result;
    } else {
      const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (send_buffer_bytes != 0) {
        ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_buffer_bytes, sizeof send_buffer_bytes);
      }
      net::RawClient raw(port_, fd);
      if (raw.is_connected()) {
        out.fd = raw.release();
      } else {
        out.status = tmesh_err_stream(TMESH_E_REFUSED);
      }
    }
    out.dns_us = dns_us;
    out.connect_us = connect_us;
    std::exchange(done_, {})(out);
  }

  net::Loop& loop_;
  uint16_t port_;
  uint64_t id_ = 0;
  Delegate<void(DialResult)> done_;
  Ticket later_;
};

}  // namespace tmesh::test
