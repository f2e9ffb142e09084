// Associations over a mux in memory, on a fake clock; the far ends of their streams are the test's.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/pool.h"
#include "core/mux/datagram.h"
#include "cpp/client/udp_associations.hpp"
#include "tests/cpp/agent/fakes.hpp"
#include "tests/cpp/server/mux_pair.hpp"

namespace tmesh::client {

inline net::UdpAddress source(unsigned n) {
  net::UdpAddress out;
  out.len = 16;
  out.bytes[0] = 2;
  out.bytes[2] = static_cast<uint8_t>(n >> 8);
  out.bytes[3] = static_cast<uint8_t>(n);
  out.bytes[4] = static_cast<uint8_t>(n >> 16);
  return out;
}

inline std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

struct FakeOpener final : StreamOpener {
  Result<OpenedStream> open(const OpenRequest& request, bool, const tmesh_mux*) override {
    opens++;
    EXPECT_EQ(request.protocol, TMESH_OPEN_UDP);
    EXPECT_EQ(request.host, "dns");
    EXPECT_EQ(request.port, 53);
    if (refusal != TMESH_OK) return fail(refusal, "refused by the test");
    auto open = test::open_request(request.host, request.port);
    open.protocol = TMESH_OPEN_UDP;
    tmesh_open_params params{&open, false, 0};
    tmesh_status why{};
    tmesh_stream* const stream = tmesh_mux_open(mux, &params, &why);
    if (stream == nullptr) return fail(TMESH_E_LIMIT, "no stream");
    return OpenedStream{stream, false};
  }
  Ticket await_link(std::string_view, Delegate<void()> done) override {
    if (!is_link_coming) return {};
    waiting.push_back(done);
    return Ticket(this, 0, [](void*, uint64_t) {});
  }
  void open_timed_out(std::string_view, const tmesh_stream&) override {}
  Ticket await_silence(std::string_view, const tmesh_stream&, Delegate<void()>) override { return {}; }

  tmesh_mux* mux = nullptr;
  tmesh_code refusal = TMESH_OK;
  bool is_link_coming = false;
  std::vector<Delegate<void()>> waiting;
  unsigned opens = 0;
};

struct FakeValidator final : OpenValidator {
  Ticket validate(const ValidationRequest& request, Delegate<void(bool)> done) override {
    EXPECT_EQ(request.protocol, "udp");
    EXPECT_EQ(request.target_host, "dns");
    asked.push_back(done);
    return Ticket(this, 0, [](void*, uint64_t) {});
  }
  std::vector<Delegate<void(bool)>> asked;
};

struct UdpAssociationsTest : ::testing::Test {
  UdpAssociationsTest() {
    opener.mux = &pair.opener.mux;
    opening.agent_id = "home";
    opening.protocol_name = "udp";
    pair.acceptor.open = test::MuxEnd::OnOpen::bind<&UdpAssociationsTest::on_open>(this);
    make();
  }
  ~UdpAssociationsTest() override {
    table.reset();
    far.clear();
    tmesh_mux_fail(&pair.opener.mux, tmesh_err_session(TMESH_E_CLOSED));
    tmesh_mux_fail(&pair.acceptor.mux, tmesh_err_session(TMESH_E_CLOSED));
  }
  void make() {
    table.emplace(
        UdpAssociationsParts{timers, opener, &validator, opening, stats, "dns", 53, idle_us,
                             UdpAssociationsParts::Reply::bind<&UdpAssociationsTest::on_reply>(this)});
  }
  void on_open(tmesh_stream* stream, const tmesh_open_stream&) {
    far.push_back(std::make_unique<test::PlainStream>());
    far.back()->takes = false;
    far.back()->attach(stream);
    if (accepts) {
      far.back()->accept();
    } else {
      far.back()->answer(tmesh_open_refuse(TMESH_STAGE_POLICY, TMESH_OPEN_FORBIDDEN, false));
      far.back()->release();
    }
  }
  tmesh_status on_reply(const net::UdpAddress& to, std::span<const uint8_t> data) {
    if (is_blocked) return tmesh_err_stream(TMESH_E_AGAIN);
    replies.emplace_back(to, std::string(reinterpret_cast<const char*>(data.data()), data.size()));
    return tmesh_ok();
  }
  void send(unsigned from, std::string_view data = "x") {
    table->on_datagram(source(from), bytes_of(data));
    pump();
  }
  void pump() {
    while (pair.step()) {
    }
  }
  void answer(std::size_t n, std::string_view data) {
    ASSERT_TRUE(tmesh_is_ok(tmesh_stream_send_datagram(far.at(n)->stream, data.data(), data.size())));
    pump();
  }
  // What has arrived at the far end of stream n.
  std::vector<std::string> arrived(std::size_t n) {
    std::vector<std::string> out;
    std::string buffer(TMESH_DATAGRAM_MAX_BYTES, '\0');
    std::size_t len = 0;
    while (tmesh_stream_peek_datagram(far.at(n)->stream, buffer.data(), buffer.size(), &len)) {
      out.push_back(buffer.substr(0, len));
      tmesh_stream_take_datagram(far[n]->stream);
    }
    return out;
  }
  bool far_ended(std::size_t n) { return far.at(n)->stream->in_eof; }
  using Strings = std::vector<std::string>;

  static constexpr uint64_t kIdle_us = 60'000'000;
  uint64_t idle_us = kIdle_us;
  tmesh_pool pool = make_pool();
  static tmesh_pool make_pool() {
    tmesh_pool out;
    tmesh_pool_init(&out, 64u << 20, 0);
    return out;
  }
  test::FakeTimers timers;
  test::MuxPair pair{&pool, 8192};
  FakeOpener opener;
  FakeValidator validator;
  OpeningSettings opening;
  EntryStats stats;
  std::optional<UdpAssociations> table;
  std::vector<std::unique_ptr<test::PlainStream>> far;
  std::vector<std::pair<net::UdpAddress, std::string>> replies;
  bool accepts = true;
  bool is_blocked = false;
};

}  // namespace tmesh::client
