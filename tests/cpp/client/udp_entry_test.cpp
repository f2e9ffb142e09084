#include "cpp/client/udp_entry.hpp"

#include "core/mux/datagram.h"
#include "tests/cpp/client/entry_fixture.hpp"
#include "tests/cpp/net/noted_udp.hpp"

namespace tmesh::client {
namespace {

using net::bytes_of;
using net::pattern;

struct UdpEntryTest : EntryTest {
  UdpEntryTest() {
    tunnel.protocol = config::Tunnel::Protocol::udp;
    tunnel.target_host = "dns";
    tunnel.target_port = 53;
  }
  net::Udp local(net::NotedUdp& handler) {
    return std::move(*net::Udp::adopt(loop(), net::connected_udp(entry->port()), handler));
  }
};

TEST_F(UdpEntryTest, DatagramsGoBothWaysBitExact) {
  make();
  net::NotedUdp noted;
  net::Udp socket = local(noted);
  for (const std::size_t n : {5u, 0u, 1u, 65'507u}) {
    SCOPED_TRACE(n);
    ASSERT_EQ(socket.send(bytes_of(pattern(n))).code, TMESH_OK);
    std::string got(TMESH_DATAGRAM_MAX_BYTES, '\0');
    std::size_t len = 0;
    ASSERT_TRUE(run_until([&] { return !server.last().streams.empty(); }));
    if (far().stream->state == TMESH_STREAM_OPENING) far().answer(tmesh_open_accept());
    ASSERT_TRUE(
        run_until([&] { return tmesh_stream_peek_datagram(far().stream, got.data(), got.size(), &len); }));
    tmesh_stream_take_datagram(far().stream);
    got.resize(len);
    EXPECT_EQ(got, pattern(n));
    ASSERT_TRUE(tmesh_is_ok(tmesh_stream_send_datagram(far().stream, got.data(), got.size())));
    ASSERT_TRUE(run_until([&] { return !noted.received.empty(); }));
    EXPECT_EQ(noted.received[0].data, pattern(n));
    noted.received.clear();
  }
  EXPECT_EQ(server.last().streams.size(), 1u);
  EXPECT_EQ(opener.calls.at(0).host, "dns");
  EXPECT_EQ(entry->locals_count(), 1u);
  EXPECT_EQ(entry->stats().accepted_count, 1u);
  entry.reset();
  expect_no_streams();
}

TEST_F(UdpEntryTest, StopListeningFreesThePortAndEndsTheAssociations) {
  make();
  net::NotedUdp noted;
  net::Udp socket = local(noted);
  ASSERT_EQ(socket.send(bytes_of("x")).code, TMESH_OK);
  ASSERT_TRUE(run_until([&] { return entry->locals_count() == 1; }));
  const uint16_t port = entry->port();
  entry->stop_listening();
  EXPECT_EQ(entry->port(), 0);
  EXPECT_EQ(entry->locals_count(), 0u);
  net::NotedUdp other;
  EXPECT_TRUE(net::Udp::bind(loop(), "127.0.0.1", port, other).has_value());
  ASSERT_TRUE(run_until([&] { return !server.last().streams.empty() && far().stream->in_eof; }));
  entry.reset();
  expect_no_streams();
}

TEST_F(UdpEntryTest, ABusyPortIsNamed) {
  net::NotedUdp noted;
  net::Udp taken = std::move(*net::Udp::bind(loop(), "127.0.0.1", 0, noted));
  tunnel.listen.port = taken.port();
  entry = make_entry(deps, tunnel, {});
  const auto listening = entry->listen();
  ASSERT_FALSE(listening);
  EXPECT_EQ(listening.error().code, TMESH_E_REFUSED);
  EXPECT_EQ(entry->port(), 0);
}

}  // namespace
}  // namespace tmesh::client
