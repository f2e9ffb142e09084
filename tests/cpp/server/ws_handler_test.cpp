#include "cpp/server/ws_handler.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <list>

#include "cpp/base/log.hpp"
#include "tests/cpp/server/ws_handler_fixture.hpp"

namespace tmesh::server {
namespace {

using test::kAllOffers;
using test::kSwitched;
using test::Peer;

struct WsHandlerTest : test::WsHandlerFixture {
  void pass_a_stream();
};

TEST_F(WsHandlerTest, TokensThatAreNotGoodGet401AndNothingElse) {
  start();
  const std::string agent_secret(rows.agent_token.secret.reveal());
  const std::string client_secret(rows.client.secret.reveal());
  for (const std::string& text :
       {upgrade_text("/ws/client", "nonsense"), upgrade_text("/ws/client", agent_secret),
        upgrade_text("/ws/agent", client_secret), upgrade_text("/ws/agent", "nonsense")}) {
    net::RawClient client = request(text);
    EXPECT_EQ(status_of(client), "HTTP/1.1 401 Unauthorized");
    EXPECT_NE(client.received.find("WWW-Authenticate: Bearer"), std::string::npos);
    EXPECT_EQ(client.received.find("agent"), std::string::npos) << "the reason stays here";
  }
  EXPECT_EQ(handler->links_count(), 0u);
  EXPECT_EQ(handler->upgrades_count(), 0u);
}

TEST_F(WsHandlerTest, StrangersCannotFillTheLog) {
  start();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
  log::set_fd(ends[1]);
  for (uint32_t i = 0; i < LogGate::kLinesMax + 20; i++) {
    net::RawClient client = request("GET /ws/client HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_EQ(status_of(client), "HTTP/1.1 426 Upgrade Required");
  }
  log::set_fd(2);
  std::string text(64 * 1024, '\0');
  const ssize_t n = ::read(ends[0], text.data(), text.size());
  text.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), static_cast<std::ptrdiff_t>(LogGate::kLinesMax));
}

TEST_F(WsHandlerTest, RequestsThatAreNoHandshakeAreRefusedWithoutTheDatabase) {
  config.allowed_origins = {"https://good.example"};
  start();
  stop_database();
  net::RawClient origin = request(client_text());
  EXPECT_EQ(status_of(origin), "HTTP/1.1 403 Forbidden");
  net::RawClient plain = request("GET /ws/client HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(status_of(plain), "HTTP/1.1 426 Upgrade Required");
  net::RawClient no_token = request(
      "GET /ws/agent HTTP/1.1\r\nHost: a\r\nOrigin: https://good.example\r\nUpgrade: websocket\r\n"
      "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
      "dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
  EXPECT_EQ(status_of(no_token), "HTTP/1.1 401 Unauthorized");
  EXPECT_EQ(handler->upgrades_count(), 0u);
}

TEST_F(WsHandlerTest, ADatabaseThatFailsIs503) {
  start();
  test::run_sql(*rows.db, "DROP TABLE service_tokens");
  net::RawClient client = request(client_text());
  EXPECT_EQ(status_of(client), "HTTP/1.1 503 Service Unavailable");
  EXPECT_EQ(client.received.find("service_tokens"), std::string::npos);
}

TEST_F(WsHandlerTest, TheBestOfferedSubProtocolIsChosen) {
  start();
  net::RawClient all = request(client_text());
  EXPECT_EQ(chosen(all), "tunnelmesh.v1.open-result.flow-control.metadata");
  net::RawClient old =
      request(client_text("Sec-WebSocket-Protocol: tunnelmesh.v1, tunnelmesh.v1.open-result\r\n"));
  EXPECT_EQ(chosen(old), "tunnelmesh.v1.open-result");
  net::RawClient none = request(client_text(""));
  EXPECT_EQ(chosen(none), "");
  net::RawClient unknown = request(client_text("Sec-WebSocket-Protocol: chat\r\n"));
  EXPECT_EQ(chosen(unknown), "") << "never what was not offered";
}

TEST_F(WsHandlerTest, CapabilitiesSwitchedOffAreNotChosen) {
  config.capabilities.flow_control = false;
  start();
  net::RawClient client = request(client_text());
  EXPECT_EQ(chosen(client), "tunnelmesh.v1.open-result");
}

TEST_F(WsHandlerTest, WithoutOpenResultClientsAreLegacy) {
  config.capabilities.open_result = false;
  start();
  net::RawClient client = request(client_text());
  EXPECT_EQ(chosen(client), "tunnelmesh.v1");
}

TEST_F(WsHandlerTest, AnAgentsOfferIsNotAnswered) {
  start();
  net::RawClient agent = request(upgrade_text("/ws/agent", rows.agent_token.secret.reveal(), kAllOffers));
  EXPECT_EQ(chosen(agent), "");
}

TEST_F(WsHandlerTest, APeerThatGoesDuringTheLookupLeavesNothing) {
  start();
  stop_database();
  {
    net::RawClient client = request(client_text());
    net::RawClient agent = request(agent_text());
    ASSERT_TRUE(run_until([&] { return handler->upgrades_count() == 2; }));
    client.reset();
  }
  ASSERT_TRUE(run_until([&] { return handler->upgrades_count() == 0; }));
  release_database();
  net::RawClient next = request(client_text());
  EXPECT_EQ(status_of(next), kSwitched);
  ASSERT_TRUE(run_until([&] { return handler->links_count() == 1; }));
}

TEST_F(WsHandlerTest, ADrainRefusesNewLinksAndThoseBeingLookedUp) {
  start();
  stop_database();
  net::RawClient before = request(client_text());
  ASSERT_TRUE(run_until([&] { return handler->upgrades_count() == 1; }));
  handler->begin_drain();
  net::RawClient after = request(agent_text());
  EXPECT_EQ(status_of(after), "HTTP/1.1 503 Service Unavailable");
  release_database();
  EXPECT_EQ(status_of(before), "HTTP/1.1 503 Service Unavailable");
  EXPECT_EQ(handler->links_count(), 0u);
}

TEST_F(WsHandlerTest, TheServerMayCloseWithUpgradesInFlight) {
  start();
  stop_database();
  std::list<net::RawClient> clients;
  for (int i = 0; i < 5; i++) clients.push_back(request(i % 2 == 0 ? client_text() : agent_text()));
  ASSERT_TRUE(run_until([&] { return handler->upgrades_count() == 5; }));
  http_server->close();
  EXPECT_EQ(handler->upgrades_count(), 0u);
}

TEST_F(WsHandlerTest, MayGoWithUpgradesInFlight) {
  start();
  stop_database();
  net::RawClient client = request(client_text());
  ASSERT_TRUE(run_until([&] { return handler->upgrades_count() == 1; }));
  http_server.reset();
  streams.reset();
  handler.reset();
  release_database();
  EXPECT_TRUE(run_until([&] { return client.is_over(); }));
}

TEST_F(WsHandlerTest, AnAgentWhoseTokenIsRevokedLosesItsLinks) {
  start();
  Peer& agent = link(request(agent_text()), false);
  agent.control(TMESH_FRAME_AGENT_HELLO, hello("c1"));
  ASSERT_TRUE(run_until([&] { return registry.links_count(rows.home.id) == 1; }));
  const uint64_t rechecked = handler->live_links().stats().rechecked_count;
  watch->note_local_commit();
  ASSERT_TRUE(run_until([&] { return handler->live_links().stats().rechecked_count > rechecked; }));
  EXPECT_FALSE(agent.down) << "a good token keeps its link";
  ASSERT_TRUE(rows.change([&](TokenService s) { return s.revoke(rows.agent_token.token); }));
  watch->note_local_commit();
  EXPECT_TRUE(run_until([&] { return agent.down && handler->links_count() == 0; }));
  EXPECT_EQ(registry.select(rows.home.id, 0), nullptr);
}

TEST_F(WsHandlerTest, AClientWhoseTokenIsRevokedLosesItsLinksAndNobodyElseDoes) {
  const auto other =
      rows.change([&](TokenService s) { return s.create({TokenType::client, rows.alice.id, {}, {}, {}}); });
  start();
  Peer& client = link(request(client_text()), true);
  Peer& second = link(request(client_text()), true);
  Peer& stays = link(request(upgrade_text("/ws/client", other->secret.reveal())), true);
  ASSERT_TRUE(run_until([&] { return handler->links_count() == 3; }));
  ASSERT_TRUE(rows.change([&](TokenService s) { return s.revoke(rows.client.token); }));
  EXPECT_TRUE(run_until([&] { return client.down && second.down; }));
  EXPECT_TRUE(run_until([&] { return handler->links_count() == 1; }));
  EXPECT_FALSE(stays.down);
}

TEST_F(WsHandlerTest, AClientsLinkStaysWhereStreamsAreToOutliveTheirRights) {
  config.authorization_cache.revoke_open_streams = false;
  start();
  Peer& client = link(request(client_text()), true);
  Peer& agent = link(request(agent_text()), false);
  ASSERT_TRUE(run_until([&] { return handler->links_count() == 2; }));
  EXPECT_EQ(handler->live_links().grants_count(), 1u) << "the agent's alone is asked about";
  for (auto* token : {&rows.client.token, &rows.agent_token.token})
    ASSERT_TRUE(rows.change([&](TokenService s) { return s.revoke(*token); }));
  EXPECT_TRUE(run_until([&] { return agent.down.has_value(); })) << "it must get no further stream";
  EXPECT_FALSE(client.down);
}

TEST_F(WsHandlerTest, ALinkWhoseTokenWasLookedUpBeforeRightsMovedIsAskedAboutAgain) {
  start();
  ASSERT_TRUE(run_until([&] { return watch->is_healthy(); }));
  stop_database();
  net::RawClient raw = request(client_text());
  ASSERT_TRUE(run_until([&] { return handler->upgrades_count() == 1; }));
  watch->note_local_commit();
  release_database();
  Peer& client = link(std::move(raw), true);
  EXPECT_TRUE(run_until([&] { return handler->live_links().stats().rechecked_count == 1; }));
  EXPECT_FALSE(client.down);
}

TEST_F(WsHandlerTest, ATokenThatReconnectsWritesOnceAndNotEachTime) {
  start();
  const auto commits = [this] { return *rows.db->foreign_commits(); };
  net::RawClient first = request(client_text());
  EXPECT_EQ(status_of(first), kSwitched);
  ASSERT_TRUE(run_until([&] {
    return !(*storage::TokenRepository(*rows.db).find(rows.client.token.id))->last_used_at.empty();
  }));
  const uint64_t before = commits();
  for (int i = 0; i < 5; i++) {
    net::RawClient again = request(client_text());
    EXPECT_EQ(status_of(again), kSwitched);
  }
  EXPECT_EQ(commits(), before);
}

TEST_F(WsHandlerTest, AnAgentThatIsDisabledLosesItsLinksByItself) {
  start();
  Peer& agent = link(request(agent_text()), false);
  agent.control(TMESH_FRAME_AGENT_HELLO, hello("c1"));
  ASSERT_TRUE(run_until([&] { return registry.links_count(rows.home.id) == 1; }));
  ASSERT_TRUE(rows.change([&](AgentService s) { return s.set_enabled(rows.home, false); }));
  EXPECT_TRUE(run_until([&] { return agent.down && handler->links_count() == 0; }));
}

TEST_F(WsHandlerTest, AnAgentTokenThatExpiresEndsItsLinks) {
  rows.time.now_us = loop().wall_us();
  const int64_t soon_us = rows.time.now_us + 2'000'000;
  const auto expiring = rows.change(
      [&](TokenService s) { return s.create({TokenType::agent, rows.alice.id, rows.home.id, {}, soon_us}); });
  start();
  Peer& agent = link(request(upgrade_text("/ws/agent", expiring->secret.reveal())), false);
  Peer& other = link(request(agent_text()), false);
  agent.control(TMESH_FRAME_AGENT_HELLO, hello("c1"));
  other.control(TMESH_FRAME_AGENT_HELLO, hello("c2"));
  ASSERT_TRUE(run_until([&] { return registry.links_count(rows.home.id) == 2; }));
  EXPECT_TRUE(run_until([&] { return agent.down.has_value(); }));
  EXPECT_FALSE(other.down) << "only the one";
}

TEST_F(WsHandlerTest, TwoLinksOfOneAgentAndTwoOfOneConnectionId) {
  start();
  net::RawClient raw[3] = {request(agent_text()), request(agent_text()), request(agent_text())};
  Peer& a = link(std::move(raw[0]), false);
  Peer& b = link(std::move(raw[1]), false);
  Peer& c = link(std::move(raw[2]), false);
  a.control(TMESH_FRAME_AGENT_HELLO, hello("c1"));
  b.control(TMESH_FRAME_AGENT_HELLO, hello("c2"));
  ASSERT_TRUE(run_until([&] { return registry.links_count(rows.home.id) == 2; }));
  c.control(TMESH_FRAME_AGENT_HELLO, hello("c1"));
  ASSERT_TRUE(run_until([&] { return c.controls.size() == 1; }));
  EXPECT_NE(c.controls[0].second.find("stale_epoch"), std::string::npos);
  EXPECT_EQ(registry.links_count(rows.home.id), 2u);
  EXPECT_EQ(handler->links_count(), 3u) << "the refused one has its second";
}

TEST_F(WsHandlerTest, ADrainTellsClientsFirstAndAgentsLater) {
  start();
  Peer& agent = link(request(agent_text()), false);
  agent.control(TMESH_FRAME_AGENT_HELLO, hello("c1"));
  ASSERT_TRUE(run_until([&] { return agent.controls.size() == 1; }));
  Peer& client = link(request(client_text()), true);
  handler->begin_drain();
  ASSERT_TRUE(run_until([&] { return client.goaways_count == 1; }));
  EXPECT_EQ(agent.goaways_count, 0u);
  EXPECT_NE(registry.select(rows.home.id, 0), nullptr) << "opens in flight still find their agent";
  handler->drain_agents();
  handler->drain_agents();
  ASSERT_TRUE(run_until([&] { return agent.goaways_count == 1; }));
  EXPECT_EQ(registry.select(rows.home.id, 0), nullptr);
}

TEST_F(WsHandlerTest, AWriterElsewhereDoesNotHoldUpUpgradesAndOpens) {
  start();
  Result<storage::Transaction> lock = storage::Transaction::write(*rows.db);
  ASSERT_TRUE(lock);
  net::RawClient client = request(client_text());
  EXPECT_TRUE(run_until([&] { return !client.pump().received.empty(); }, 3'000'000));
  EXPECT_EQ(status_of(client), kSwitched);
}

// Everything that a stream's life writes to the log, at the most talkative level.
TEST_F(WsHandlerTest, TheLogHasNoTargetAndNoSecret) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  log::set_fd(fileno(file));
  log::set_level(log::Level::debug);
  start();
  net::RawClient refused = request(upgrade_text("/ws/client", "wrong-secret"));
  EXPECT_EQ(status_of(refused), "HTTP/1.1 401 Unauthorized");
  pass_a_stream();
  log::set_level(log::Level::info);
  log::set_fd(2);
  std::rewind(file);
  std::string text(65536, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  EXPECT_NE(text.find("relay_done"), std::string::npos);
  EXPECT_NE(text.find("link_refused"), std::string::npos) << text;
  for (const std::string& secret :
       {std::string("example.com"), std::string("wrong-secret"), std::string(rows.client.secret.reveal()),
        std::string(rows.agent_token.secret.reveal()), std::string("127.0.0.1")}) {
    EXPECT_EQ(text.find(secret), std::string::npos) << secret << "\n" << text;
  }
}

TEST_F(WsHandlerTest, AStreamFromAClientReachesItsAgentAndBack) {
  start();
  pass_a_stream();
}

void WsHandlerTest::pass_a_stream() {
  Peer& agent = link(request(agent_text()), false);
  agent.control(TMESH_FRAME_AGENT_HELLO, hello("c1"));
  agent.on_stream = [](test::PeerStream& s) { s.answer(tmesh_open_accept()); };
  ASSERT_TRUE(run_until([&] { return agent.controls.size() == 1; }));
  Peer& client = link(request(client_text()), true);
  tmesh_open_stream open{};
  std::memcpy(open.agent_id, rows.home.id.data(), rows.home.id.size());
  std::strcpy(open.target_host, "DB.example.COM.");
  open.target_port = 443;
  tmesh_open_params params{&open, true, TMESH_WINDOW_INITIAL_BYTES};
  tmesh_status why{};
  tmesh_stream* raw = tmesh_mux_open(client.link.mux(), &params, &why);
  ASSERT_NE(raw, nullptr);
  test::PeerStream stream(raw, open);
  ASSERT_TRUE(run_until([&] { return raw->state == TMESH_STREAM_OPEN; }));
  ASSERT_EQ(agent.streams.size(), 1u);
  EXPECT_STREQ(agent.streams.front().open.target_host, "db.example.com");
  EXPECT_EQ(handler->client_streams_count(), 1u);
  EXPECT_EQ(streams->relays_count(), 1u);
  stream.send(std::string(1'000'000, 'x'));
  agent.streams.front().send(std::string(1'000'000, 'y'));
  ASSERT_TRUE(run_until([&] {
    return agent.streams.front().received.size() == 1'000'000 && stream.received.size() == 1'000'000;
  }));
  handler->begin_drain();
  ASSERT_TRUE(run_until([&] { return client.goaways_count == 1; }));
  stream.send("after goaway");
  ASSERT_TRUE(run_until([&] { return agent.streams.front().received.size() == 1'000'012; }));
  client.link.close();
  ASSERT_TRUE(
      run_until([&] { return handler->client_streams_count() == 0 && streams->relays_count() == 0; }));
  ASSERT_TRUE(run_until([&] { return agent.streams.front().over.has_value(); }));
  agent.link.close();
  ASSERT_TRUE(run_until([&] { return handler->links_count() == 0; }));
  EXPECT_EQ(registry.links_count(rows.home.id), 0u);
}

}  // namespace
}  // namespace tmesh::server
