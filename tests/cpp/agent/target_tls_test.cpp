// https targets: the agent's TLS against a real TLS server on a real socket.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <string>

#include "core/loop/loop.h"
#include "core/loop/transport.h"
#include "core/wire/tls.h"
#include "cpp/base/file.hpp"
#include "tests/cpp/agent/target_fixture.hpp"
#include "tests/cpp/net/tls_files.hpp"

namespace {
std::atomic<uint64_t> allocation_count;
}
extern "C" {
void* __real_malloc(size_t n);
void* __real_calloc(size_t n, size_t size);
void* __wrap_malloc(size_t n) {
  ++allocation_count;
  return __real_malloc(n);
}
void* __wrap_calloc(size_t n, size_t size) {
  ++allocation_count;
  return __real_calloc(n, size);
}
}

namespace tmesh::agent {
namespace {

std::string pattern(std::size_t n) {
  std::string out(n, '\0');
  uint32_t x = 1;
  for (char& c : out) c = static_cast<char>((x = x * 1664525 + 1013904223) >> 24);
  return out;
}

// A target that speaks TLS.
class TlsPeer {
 public:
  TlsPeer(net::Loop& loop, int fd, tmesh_tls_config* config) {
    static constexpr tmesh_transport_events kEvents = {
        [](void* ctx, tmesh_status st) { at(ctx).ready = st; },
        [](void* ctx, uint8_t* data, size_t n) { at(ctx).received.append(reinterpret_cast<char*>(data), n); },
        [](void* ctx) { at(ctx).is_eof = true; },
        [](void* ctx) { at(ctx).written_count++; },
        [](void* ctx, tmesh_status st) { at(ctx).error = st; },
        [](void* ctx) { at(ctx).is_closed = true; }};
    EXPECT_TRUE(
        tmesh_is_ok(tmesh_transport_open(&transport, loop.raw(), fd, config, true, nullptr, &kEvents, this)));
    tmesh_transport_read(&transport, true);
  }
  // `out` stays until it went.
  void send(std::string text) {
    out = std::move(text);
    EXPECT_TRUE(tmesh_is_ok(tmesh_transport_write(&transport, out.data(), out.size())));
  }
  void finish() { EXPECT_TRUE(tmesh_is_ok(tmesh_transport_finish(&transport))); }
  void read(bool on) { tmesh_transport_read(&transport, on); }
  void close(bool is_graceful) { tmesh_transport_close(&transport, is_graceful); }

  std::string out;
  std::string received;
  std::optional<tmesh_status> ready;
  std::optional<tmesh_status> error;
  std::size_t written_count = 0;
  bool is_eof = false;
  bool is_closed = false;

 private:
  static TlsPeer& at(void* ctx) { return *static_cast<TlsPeer*>(ctx); }
  tmesh_transport transport{};
};

tmesh_tls_config* server_config(tmesh_tls_version max) {
  const std::string cert = *read_file(net::tls_server_files().cert, TMESH_TLS_PEM_MAX_BYTES);
  const std::string key = *read_file(net::tls_server_files().key, TMESH_TLS_PEM_MAX_BYTES);
  tmesh_tls_options options{};
  options.max_version = max;
  options.cert = {cert.data(), cert.size()};
  options.key = {key.data(), key.size()};
  tmesh_tls_config* config = nullptr;
  tmesh_tls_config_error error{};
  EXPECT_TRUE(tmesh_is_ok(tmesh_tls_config_new_server(&options, &config, &error)));
  return config;
}

struct TargetTlsTest : TargetStreamTest {
  TargetTlsTest()
      : with_tls{loop(), timers, samples, datagrams_dropped_count, stream_settings, &present_tls} {
    pair.acceptor.open = test::MuxEnd::OnOpen::bind<&TargetTlsTest::on_https_open>(this);
  }
  ~TargetTlsTest() override {
    targets.clear();
    pump();
    if (peer) {
      peer->close(false);
      EXPECT_TRUE(run_until([&] { return peer->is_closed; }));
    }
    tmesh_tls_config_unref(peer_config);
  }
  void on_https_open(tmesh_stream* stream, const tmesh_open_stream& open) {
    targets.push_back(std::make_unique<TargetStream>(
        with_tls, stream, Ticket(), TargetStream::Over::bind<&TargetTlsTest::on_https_over>(this)));
    targets.back()->place = std::prev(targets.end());
    targets.back()->start(*executor, open);
  }
  void on_https_over(TargetStream& target) { on_over(target); }

  static tmesh_open_stream https(const char* host, const char* server_name = "") {
    tmesh_open_stream open = test::open_request(host, 443);
    open.protocol = TMESH_OPEN_HTTP;
    open.is_target_https = true;
    std::strcpy(open.tls_server_name, server_name);
    return open;
  }
  // The dial succeeds; what answers is given raw.
  net::RawClient& dialled(PlainStream& stream, const tmesh_open_stream& request) {
    EXPECT_TRUE(stream.open(mux(), request));
    pump();
    return connect(request.target_host);
  }
  // And speaks TLS.
  void begin(const tmesh_open_stream& request, tmesh_tls_version max = TMESH_TLS_VERSION_1_3) {
    peer_config = server_config(max);
    const int fd = dialled(client, request).release();
    const int small = 65'536;  // the kernel would take megabytes
    ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    peer.emplace(loop(), fd, peer_config);
  }
  void open_up(tmesh_tls_version max = TMESH_TLS_VERSION_1_3) {
    begin(https("localhost"), max);
    ASSERT_TRUE(until([&] { return client.has_result && peer->ready.has_value(); }));
    ASSERT_TRUE(client.result.accepted);
  }
  void expect_untrusted(const tmesh_open_stream& request) {
    begin(request);
    ASSERT_TRUE(until([&] { return client.has_result; }));
    expect_refused(client, TMESH_STAGE_CONNECT, TMESH_OPEN_HOST_UNREACHABLE);
    EXPECT_FALSE(client.result.retryable);
    EXPECT_EQ(overs, 1);
  }

  net::TlsContext tls = std::move(*net::TlsContext::client(net::tls_client_files()));
  const net::TlsContext* present_tls = &tls;
  TargetContext with_tls;
  tmesh_tls_config* peer_config = nullptr;
  std::optional<TlsPeer> peer;
  PlainStream client;
};

TEST_F(TargetTlsTest, TheAnswerComesAfterTheHandshakeAndNotBefore) {
  net::RawClient& raw = dialled(client, https("localhost"));
  ASSERT_TRUE(until([&] { return !raw.pump().received.empty(); }));
  ASSERT_TRUE(until([turns = 0]() mutable { return ++turns > 20; }));
  EXPECT_FALSE(client.has_result) << "the target is connected, and nothing is verified";
  EXPECT_EQ(raw.received[0], '\x16') << "a ClientHello";
}

TEST_F(TargetTlsTest, BytesPassBothWaysAndEachEndEndsOneDirection) {
  open_up();
  client.write("question");
  ASSERT_TRUE(until([&] { return peer->received == "question"; }));
  client.finish();
  ASSERT_TRUE(until([&] { return peer->is_eof; })) << "TLS 1.3: close_notify ends one direction";
  peer->send("answer");
  ASSERT_TRUE(until([&] { return client.received == "answer"; }));
  ASSERT_TRUE(until([&] { return peer->written_count == 1; }));
  EXPECT_EQ(overs, 0);
  peer->finish();
  ASSERT_TRUE(until([&] { return client.is_eof && overs == 1; }));
  EXPECT_FALSE(client.is_over) << "a regular end";
  EXPECT_FALSE(peer->error.has_value());
}

TEST_F(TargetTlsTest, ATls12TargetIsNotToldOfOurEndBeforeItsOwn) {
  open_up(TMESH_TLS_VERSION_1_2);
  client.write("question");
  client.finish();
  ASSERT_TRUE(until([&] { return peer->received == "question"; }));
  peer->send("answer");
  ASSERT_TRUE(until([&] { return client.received == "answer" && peer->written_count == 1; }));
  EXPECT_FALSE(peer->is_eof) << "it would drop what it still has to say (RFC 5246, 7.2.1)";
  peer->finish();
  ASSERT_TRUE(until([&] { return client.is_eof && overs == 1; }));
  ASSERT_TRUE(until([&] { return peer->is_eof; })) << "with the close it is told";
  EXPECT_FALSE(client.is_over);
}

TEST_F(TargetTlsTest, TheCertificateMustHaveTheHostsName) {
  expect_untrusted(https("web.example.com"));
}

TEST_F(TargetTlsTest, ANameOfItsOwnIsWhatCounts) {
  begin(https("10.1.2.3", "localhost"));
  ASSERT_TRUE(until([&] { return client.has_result; }));
  EXPECT_TRUE(client.result.accepted);
}

TEST_F(TargetTlsTest, AWrongNameOfItsOwnIsRefusedWhateverTheHost) {
  expect_untrusted(https("localhost", "other.example.com"));
}

TEST_F(TargetTlsTest, AnAddressIsVerifiedToo) {
  begin(https("127.0.0.1"));
  ASSERT_TRUE(until([&] { return client.has_result; }));
  EXPECT_TRUE(client.result.accepted);
}

TEST_F(TargetTlsTest, AnUnknownCaIsRefused) {
  const std::string other = net::tls_test_folder() + "-other";
  ASSERT_EQ(std::system(("bash " TMESH_SOURCE_DIR "/tests/support/make_ca.sh " + other).c_str()), 0);
  tls = std::move(*net::TlsContext::client({"", "", other + "/ca.pem", false}));
  ASSERT_EQ(std::system(("rm -rf " + other).c_str()), 0);
  expect_untrusted(https("localhost"));
}

// A reload may come to an agent that has no CAs any more.
TEST_F(TargetTlsTest, WithoutCasNothingIsVerifiedAndNothingOpened) {
  ASSERT_TRUE(client.open(mux(), https("localhost")));
  pump();
  present_tls = nullptr;
  net::RawClient& raw = connect("localhost");
  ASSERT_TRUE(until([&] { return client.has_result; }));
  expect_refused(client, TMESH_STAGE_PROTOCOL, TMESH_OPEN_UNSUPPORTED_CAPABILITY);
  EXPECT_FALSE(client.result.retryable);
  EXPECT_TRUE(until([&] { return raw.pump().is_over(); }));
  PlainStream later;
  ASSERT_TRUE(later.open(mux(), https("localhost")));
  pump();
  expect_refused(later, TMESH_STAGE_PROTOCOL, TMESH_OPEN_UNSUPPORTED_CAPABILITY);
}

TEST_F(TargetTlsTest, ATargetThatSpeaksNoTlsIsRefused) {
  net::RawClient& raw = dialled(client, https("localhost"));
  raw.send("HTTP/1.1 400 Bad Request\r\n\r\n");
  ASSERT_TRUE(until([&] { return client.has_result; }));
  expect_refused(client, TMESH_STAGE_CONNECT, TMESH_OPEN_HOST_UNREACHABLE);
  EXPECT_EQ(overs, 1);
}

TEST_F(TargetTlsTest, ATargetThatLeavesInTheHandshakeIsRefused) {
  dialled(client, https("localhost")).finish();
  ASSERT_TRUE(until([&] { return client.has_result; }));
  expect_refused(client, TMESH_STAGE_CONNECT, TMESH_OPEN_HOST_UNREACHABLE);
}

TEST_F(TargetTlsTest, ASilentTargetHasTheTimeOfTheOpen) {
  ASSERT_TRUE(client.open(mux(), https("localhost")));
  pump();
  timers.advance(3'000'000);
  net::RawClient& raw = connect("localhost");
  timers.advance(4'999'999);
  pump();
  EXPECT_FALSE(client.has_result) << "the dial took three seconds of the eight";
  timers.advance(1);
  pump();
  expect_refused(client, TMESH_STAGE_CONNECT, TMESH_OPEN_TIMEOUT);
  EXPECT_TRUE(client.result.retryable);
  ASSERT_TRUE(until([&] { return raw.pump().is_over(); }));
}

TEST_F(TargetTlsTest, AResetDuringTheHandshakeClosesTheTarget) {
  net::RawClient& raw = dialled(client, https("localhost"));
  client.reset();
  ASSERT_TRUE(until([&] { return overs == 1 && raw.pump().is_over(); }));
  timers.advance(60'000'000);
}

TEST_F(TargetTlsTest, WhatWasOpenedButNotTaggedHttpsIsPlain) {
  tmesh_open_stream plain = https("localhost");
  plain.is_target_https = false;
  net::RawClient& raw = dialled(client, plain);
  ASSERT_TRUE(until([&] { return client.has_result; }));
  EXPECT_TRUE(client.result.accepted);
  client.write("GET /");
  ASSERT_TRUE(until([&] { return raw.pump().received == "GET /"; }));
}

// What came is delivered, but a cut stream is not a complete one.
TEST_F(TargetTlsTest, AnEndWithoutCloseNotifyIsAReset) {
  open_up();
  pair.is_held[1] = true;  // it waits for the agent's link while the end comes
  peer->send("half an ans");
  ASSERT_TRUE(until([&] { return peer->written_count == 1; }));
  peer->close(false);
  ASSERT_TRUE(until([&, turns = 0]() mutable { return peer->is_closed && ++turns > 20; }));
  pair.is_held[1] = false;
  ASSERT_TRUE(until([&] { return client.is_over; }));
  EXPECT_EQ(client.received, "half an ans");
  EXPECT_FALSE(client.is_eof);
  EXPECT_EQ(overs, 1);
}

TEST_F(TargetTlsTest, AResetOfTheStreamCutsTheTarget) {
  open_up();
  client.reset();
  ASSERT_TRUE(until([&] { return overs == 1 && peer->error.has_value(); })) << "not a regular end";
  EXPECT_FALSE(peer->is_eof);
}

TEST_F(TargetTlsTest, ASlowReaderHoldsTheTargetBackAndLosesNothing) {
  open_up();
  const std::string all = pattern(6u << 20);
  client.takes = false;
  peer->send(all);
  std::size_t held_bytes = 0;
  ASSERT_TRUE(until([&, turns = 0]() mutable {
    held_bytes = std::max(held_bytes, tmesh_pool_live_bytes(loop().pool()));
    return ++turns > 100;
  }));
  EXPECT_EQ(peer->written_count, 0u);
  // A window on each side of the pipe, what the flow and the mux may hold, and the rounding of blocks.
  EXPECT_LT(held_bytes, 2u << 20);
  client.takes = true;
  client.take();
  ASSERT_TRUE(until([&] { return client.received.size() == all.size(); }));
  EXPECT_EQ(client.received, all);
  EXPECT_EQ(peer->written_count, 1u);
}

TEST_F(TargetTlsTest, ASlowTargetHoldsTheWriterBackAndLosesNothing) {
  open_up();
  peer->read(false);
  const std::string all = pattern(6u << 20);
  std::size_t written = 0;
  const auto write_more = [&] {
    written += tmesh_stream_write(client.stream, all.data() + written, all.size() - written);
  };
  ASSERT_TRUE(until([&, turns = 0]() mutable {
    write_more();
    return ++turns > 100;
  }));
  const std::size_t stuck_at = written;
  EXPECT_LT(stuck_at, all.size());
  EXPECT_TRUE(peer->received.empty());
  peer->read(true);
  ASSERT_TRUE(until([&] {
    write_more();
    return peer->received.size() == all.size();
  }));
  EXPECT_EQ(peer->received, all);
}

// limits.stalled_close_timeout, as for plain sockets: nobody reads, and the target has ended.
TEST_F(TargetTlsTest, ATargetThatEndedBehindAStalledReaderIsGivenUp) {
  loop().raw()->paused_probe_us = 50'000;
  loop().raw()->stalled_close_us = 200'000;
  open_up();
  client.takes = false;
  // The windows and queues of both ends, and some that stays in the kernel.
  peer->send(pattern(900'000));
  ASSERT_TRUE(until([&] { return peer->written_count == 1; }));
  peer->finish();
  ASSERT_TRUE(until([&] { return peer->written_count == 2; }));
  ASSERT_TRUE(until([&] { return overs == 1; }));
  EXPECT_TRUE(client.is_over);
}

TEST_F(TargetTlsTest, ATargetThatVanishesBehindItsEndIsNoticed) {
  loop().raw()->paused_probe_us = 50'000;
  open_up();
  peer->read(false);
  client.write("never read");
  peer->finish();
  ASSERT_TRUE(until([&] { return client.is_eof; }));
  EXPECT_EQ(overs, 0) << "our direction goes on";
  peer->close(false);
  ASSERT_TRUE(until([&] { return overs == 1; }));
  EXPECT_TRUE(client.is_over);
}

TEST_F(TargetTlsTest, NothingIsAllocatedPerFrame) {
  open_up();
  const std::string all = pattern(4u << 20);
  peer->send(all);
  ASSERT_TRUE(until([&] { return client.received.size() == all.size() && peer->written_count == 1; }));
  client.received.clear();
  client.received.reserve(all.size());
  // Warm: the second time the same.
  const uint64_t before = allocation_count;
  peer->send(all);
  ASSERT_TRUE(until([&] { return client.received.size() == all.size(); }));
  EXPECT_EQ(client.received, all);
  // 4 MiB are 128 frames and 256 records; the loop's own buffers may come once.
  EXPECT_LT(allocation_count - before, 8u);
}

TEST_F(TargetTlsTest, MayGoAtAnyMoment) {
  for (int moment = 0; moment < 30; moment++) {
    PlainStream one;
    tmesh_tls_config* const own = server_config(TMESH_TLS_VERSION_1_3);
    TlsPeer target(loop(), dialled(one, https("localhost")).release(), own);
    for (int i = 0; i < moment; i++) {
      pump();
      run_until([turns = 0]() mutable { return ++turns > 1; });
    }
    if (one.has_result) one.write("x");
    targets.clear();
    pump();
    target.close(moment % 2 == 0);
    ASSERT_TRUE(until([&] { return target.is_closed; }));
    tmesh_tls_config_unref(own);
  }
}

}  // namespace
}  // namespace tmesh::agent
