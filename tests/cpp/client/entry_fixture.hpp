// An entry between real local sockets and a real link whose far end is the test's.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/loop/loop.h"
#include "cpp/client/entry.hpp"
#include "tests/cpp/session/fake_server.hpp"

namespace tmesh::client {

using net::RawClient;
using test::FakeServer;
using test::PeerStream;

inline std::string bytes(std::initializer_list<int> list) {
  std::string out;
  for (const int b : list) out.push_back(static_cast<char>(b));
  return out;
}

// An unmasked WebSocket message with one frame of the stream with id 1.
inline std::string raw_frame(uint8_t type, std::string_view payload = {}) {
  tmesh_frame_header header{};
  header.type = type;
  header.stream_id = 1;
  header.length_bytes = static_cast<uint32_t>(payload.size());
  uint8_t head[TMESH_FRAME_HEADER_BYTES];
  EXPECT_TRUE(tmesh_is_ok(tmesh_frame_header_encode(head, &header)));
  std::string out = bytes({0x82, static_cast<int>(sizeof head + payload.size())});
  EXPECT_LE(sizeof head + payload.size(), 125u);
  return out.append(reinterpret_cast<const char*>(head), sizeof head).append(payload);
}
inline std::string raw_result(const tmesh_open_result& result) {
  char text[TMESH_OPEN_RESULT_MAX_BYTES];
  std::size_t len = 0;
  EXPECT_TRUE(tmesh_is_ok(tmesh_open_result_encode(&result, text, sizeof text, &len)));
  return raw_frame(TMESH_FRAME_OPEN_RESULT, {text, len});
}

// Streams of one link, strict where the entry may have it and the test wants it.
struct Opener final : StreamOpener {
  Result<OpenedStream> open(const OpenRequest& request, bool allow_strict, const tmesh_mux*) override {
    calls.push_back({std::string(request.agent_id), std::string(request.host), request.port, allow_strict});
    if (refusal != TMESH_OK) return fail(refusal, "refused by the test");
    tmesh_open_stream open{};
    open.protocol = request.protocol;
    request.host.copy(open.target_host, sizeof open.target_host - 1);
    open.target_port = request.port;
    open.is_target_https = request.is_target_https;
    request.tls_server_name.copy(open.tls_server_name, sizeof open.tls_server_name - 1);
    request.host_header.copy(open.host_header, sizeof open.host_header - 1);
    const bool is_stream = request.protocol != TMESH_OPEN_UDP;
    tmesh_open_params params{&open, is_stream && is_strict && (allow_strict || ignores_wish),
                             is_stream ? TMESH_WINDOW_INITIAL_BYTES : 0};
    tmesh_status why{};
    tmesh_stream* const stream = tmesh_mux_open(mux, &params, &why);
    if (why.code == TMESH_E_STATE) return fail(TMESH_E_CLOSED, "the link is over");
    EXPECT_NE(stream, nullptr);
    if (refuses_next) refusal = TMESH_E_CLOSED;
    return OpenedStream{stream, params.is_strict};
  }

  Ticket await_silence(std::string_view, const tmesh_stream&, Delegate<void()>) override { return {}; }
  Ticket await_link(std::string_view agent_id, Delegate<void()> done) override {
    EXPECT_EQ(agent_id, "home");
    if (!is_link_coming) return {};
    waiting.push_back(done);
    return Ticket(this, 0, [](void* self, uint64_t) { static_cast<Opener*>(self)->waiting.clear(); });
  }
  // The link is there, or is not to be had.
  void wake() { std::exchange(waiting, {}).at(0)(); }
  void open_timed_out(std::string_view agent_id, const tmesh_stream& stream) override {
    EXPECT_EQ(stream.mux, mux);
    timed_out.emplace_back(agent_id);
  }

  struct Call {
    std::string agent_id, host;
    uint16_t port;
    bool allow_strict;
  };
  std::vector<Call> calls;
  std::vector<std::string> timed_out;  // agents
  bool is_link_coming = false;
  std::vector<Delegate<void()>> waiting;
  tmesh_mux* mux = nullptr;
  bool is_strict = true;
  bool ignores_wish = false;  // strict whatever the entry asks for
  tmesh_code refusal = TMESH_OK;
  bool refuses_next = false;  // from the second call on
};

class EntryTest : public net::LoopTest {
 protected:
  EntryTest() : server(loop()) {
    RawClient raw(server.port());
    link.emplace(loop(), raw.release(), nullptr);
    EXPECT_TRUE(run_until([&] { return server.count() == 1 && server.last().ready && link->ready; }));
    tmesh_mux_config mux = test::mux_config(true);
    mux.has_early_data = true;
    link->become_link(mux, true);
    opener.mux = link->link.mux();
    tunnel.name = "web";
    tunnel.agent_id = "home";
    tunnel.listen = {"127.0.0.1", 0};
  }
  // is_raw: the server's end stays a byte stream, for frames in one segment.
  void make(bool is_raw = false) {
    tmesh_mux_config mux = test::mux_config(false);
    mux.has_early_data = true;
    if (!is_raw) server.last().become_link(mux);
    entry = make_entry(deps, tunnel, Entry::Broken::bind<&EntryTest::on_broken>(this));
    ASSERT_NE(entry, nullptr);
    ASSERT_TRUE(entry->listen().has_value());
    EXPECT_EQ(entry->port() == 0, !tunnel.socket_path.empty());
  }
  void on_broken(Entry& e) {
    broken_count++;
    if (destroys_when_broken) {
      EXPECT_EQ(&e, &*entry);
      entry.reset();
    }
  }
  // A local client that sent `first`; the stream has arrived at the server.
  RawClient connect_with(std::string_view first) {
    RawClient local(entry->port());
    EXPECT_TRUE(local.is_connected());
    const std::size_t before = server.last().streams.size();
    local.send(first);
    EXPECT_TRUE(run_until([&] { return server.last().streams.size() == before + 1; }));
    return local;
  }
  PeerStream& far() { return server.last().streams.back(); }
  // Everything the local client got, and an end that is no reset.
  void expect_end(RawClient& local, const std::string& received) {
    ASSERT_TRUE(run_until([&] { return local.is_over(); }));
    EXPECT_EQ(local.received, received);
    EXPECT_FALSE(local.is_reset);
    EXPECT_EQ(entry->locals_count(), 0u);
  }
  void expect_no_streams() {
    server.last().streams.clear();
    ASSERT_TRUE(run_until([&] { return opener.mux->streams.count == 0; }));
  }
  void run_for(uint64_t us) {
    ASSERT_FALSE(run_until([] { return false; }, us));
  }

  FakeServer server;
  std::optional<test::Peer> link;
  Opener opener;
  EntryDeps deps{loop(), opener};
  config::Tunnel tunnel;
  std::unique_ptr<Entry> entry;
  std::size_t broken_count = 0;
  bool destroys_when_broken = false;
};

}  // namespace tmesh::client
