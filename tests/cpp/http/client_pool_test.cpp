// Which connection a request goes out on, when connections end, and what is sent again.
#include <gtest/gtest.h>

#include "tests/cpp/http/client_fixture.hpp"

namespace tmesh::http {
namespace {

TEST_F(ClientTest, ConnectionsPerOriginAreBoundedAndTheRestWaitsInOrder) {
  for (int i = 0; i < 12; i++) send(post("b" + std::to_string(100 + i)));
  ASSERT_TRUE(run_until([&] {
    std::size_t ready = 0;
    for (std::size_t n = 0; n < server.count(); n++) ready += requests(n);
    return ready == 8;
  }));
  settle();
  EXPECT_EQ(server.count(), 8u);
  for (int next = 8; next < 12; next++) {
    // The first connection serves the rest, one after the other.
    server.peer(0).reply(kOk);
    ASSERT_TRUE(run_until([&] { return server.peer(0).bytes.ends_with("b" + std::to_string(100 + next)); }));
  }
  EXPECT_EQ(server.count(), 8u);
  EXPECT_EQ(client->connections_count(), 8u);
}

TEST_F(ClientTest, OriginsShareNoConnections) {
  exchange();
  test::FakeServer other(loop());
  ClientRequest request = post();
  request.url.port = other.port();
  Call& call = send(std::move(request));
  ASSERT_TRUE(run_until([&] { return other.has_request(0); }));
  other.last().reply(kOk);
  ASSERT_TRUE(run_until([&] { return call.count == 1; }));
  EXPECT_EQ(client->idle_count(), 2u);
  drop_client();
}

TEST_F(ClientTest, ConnectionsInAllAreBoundedAndAnIdleOneMakesRoom) {
  make({.max_connections = 1});
  exchange();
  test::FakeServer other(loop());
  ClientRequest request = post();
  request.url.port = other.port();
  Call& call = send(std::move(request));
  ASSERT_TRUE(run_until([&] { return other.has_request(0); }));
  ASSERT_TRUE(run_until([&] { return server.peer(0).is_eof; })) << "the idle one of the other origin";
  Call& waits = send();
  settle();
  EXPECT_EQ(server.count(), 1u) << "no idle one is left to make room";
  EXPECT_EQ(client->connections_count(), 1u);
  other.last().reply(kOk);
  ASSERT_TRUE(run_until([&] { return call.count == 1; }));
  ASSERT_TRUE(has_requests(1, 1));
  answer(1, waits);
  EXPECT_TRUE(waits.is_ok());
  drop_client();
}

TEST_F(ClientTest, AnIdleConnectionEndsAfterItsTime) {
  exchange();
  timers.advance(29'000'000);
  EXPECT_EQ(client->idle_count(), 1u);
  exchange();
  timers.advance(29'000'000);
  EXPECT_EQ(client->idle_count(), 1u) << "its time begins with the last answer";
  timers.advance(1'000'000);
  EXPECT_EQ(client->connections_count(), 0u);
  EXPECT_EQ(timers.count(), 0u);
  ASSERT_TRUE(run_until([&] { return server.peer(0).is_eof; }));
}

TEST_F(ClientTest, ARequestEndsTheTimeOfIdleness) {
  exchange();
  timers.advance(29'000'000);
  Call& call = send();
  ASSERT_TRUE(has_requests(0, 2));
  timers.advance(2'000'000);
  answer(0, call);
  EXPECT_TRUE(call.is_ok());
  EXPECT_EQ(server.count(), 1u);
}

TEST_F(ClientTest, AnIdleConnectionThatEndsOrSpeaksIsGone) {
  exchange(0);
  server.peer(0).transport = {};
  ASSERT_TRUE(run_until([&] { return client->connections_count() == 0; }));
  exchange(1);
  server.peer(1).reply("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  ASSERT_TRUE(run_until([&] { return client->connections_count() == 0; }));
  exchange(2);
}

// It is the least likely to have been closed meanwhile.
TEST_F(ClientTest, TheConnectionThatWasUsedLastGoesFirst) {
  for (const std::size_t last : {std::size_t{1}, std::size_t{0}}) {
    const std::size_t before = server.count() == 2 ? requests(0) + requests(1) : 0;
    Call& one = send();
    Call& other = send();
    ASSERT_TRUE(run_until([&] { return server.count() == 2 && requests(0) + requests(1) == before + 2; }));
    server.peer(1 - last).reply(kOk);
    ASSERT_TRUE(run_until([&] { return one.count + other.count == 1; }));
    timers.advance(1);
    server.peer(last).reply(kOk);
    ASSERT_TRUE(run_until([&] { return one.count + other.count == 2; }));
    const std::size_t had = requests(last);
    Call& next = send();
    ASSERT_TRUE(has_requests(last, had + 1));
    answer(last, next);
  }
}

TEST_F(ClientTest, AStaleConnectionIsReplacedByAFreshOneOnce) {
  exchange();
  Call& call = send();
  ASSERT_TRUE(has_requests(0, 2));
  server.peer(0).transport = {};
  ASSERT_TRUE(has_requests(1, 1)) << "the same request on a fresh connection";
  EXPECT_EQ(call.count, 0);
  EXPECT_EQ(client->stats().repeated_count, 1u);
  answer(1, call);
  EXPECT_TRUE(call.is_ok());
}

TEST_F(ClientTest, ARepeatedRequestIsNotRepeatedAgain) {
  exchange();
  Call& call = send();
  ASSERT_TRUE(has_requests(0, 2));
  server.peer(0).transport = {};
  ASSERT_TRUE(has_requests(1, 1));
  server.peer(1).transport = {};
  ASSERT_TRUE(run_until([&] { return call.count == 1; }));
  expect_failure(call, TMESH_E_CLOSED, "response");
  settle();
  EXPECT_EQ(server.count(), 2u);
}

// Never an idle one: that may be as stale as the first.
TEST_F(ClientTest, ARepeatedRequestGoesOutOnAFreshConnectionThoughOthersAreIdle) {
  Call& first = send();
  Call& second = send();
  ASSERT_TRUE(has_requests(0, 1) && has_requests(1, 1));
  answer(0, first);
  answer(1, second);
  ASSERT_EQ(client->idle_count(), 2u);
  Call& call = send();
  ASSERT_TRUE(run_until([&] { return requests(0) + requests(1) == 3; }));
  server.peer(requests(0) == 2 ? 0 : 1).transport = {};
  ASSERT_TRUE(has_requests(2, 1));
  answer(2, call);
  EXPECT_TRUE(call.is_ok());
}

TEST_F(ClientTest, WhatMayHaveBeenDoneIsNotRepeated) {
  exchange();
  ClientRequest once = post();
  once.is_repeatable = false;
  Call& not_repeatable = send(std::move(once));
  ASSERT_TRUE(has_requests(0, 2));
  server.peer(0).transport = {};
  ASSERT_TRUE(run_until([&] { return not_repeatable.count == 1; }));
  expect_failure(not_repeatable, TMESH_E_CLOSED, "response");
  exchange(1);
  for (const char* begun : {"H", "HTTP/1.1 100 Continue\r\n\r\n"}) {
    const std::size_t n = server.count() - 1;
    Call& call = send();
    ASSERT_TRUE(has_requests(n, 2));
    server.peer(n).reply(begun);
    settle();
    server.peer(n).transport = {};
    ASSERT_TRUE(run_until([&] { return call.count == 1; }));
    expect_failure(call, TMESH_E_TRUNCATED, "response");
    exchange(n + 1);
  }
  EXPECT_EQ(client->stats().repeated_count, 0u);
}

TEST_F(ClientTest, DestroyingTheTicketEndsTheRequestAndItsConnection) {
  exchange();
  Call& call = send();
  ASSERT_TRUE(has_requests(0, 2));
  call.ticket.cancel();
  EXPECT_EQ(client->requests_count(), 0u);
  EXPECT_EQ(client->connections_count(), 0u) << "its answer could be taken for another's";
  ASSERT_TRUE(run_until([&] { return server.peer(0).is_eof || server.peer(0).down; }));
  settle();
  EXPECT_EQ(call.count, 0);
}

TEST_F(ClientTest, DestroyingTheTicketLetsTheNextOneGo) {
  make({.max_connections_per_origin = 1});
  Call& first = send();
  Call& second = send();
  Call& third = send();
  ASSERT_TRUE(has_requests(0, 1));
  second.ticket.cancel();
  first.ticket.cancel();
  ASSERT_TRUE(has_requests(1, 1));
  answer(1, third);
  EXPECT_TRUE(third.is_ok());
  EXPECT_EQ(first.count + second.count, 0);
}

TEST_F(ClientTest, TheTimeIsForEverythingAndTheStageSaysWhereItWent) {
  make({.max_connections_per_origin = 1});
  Call& response = send();
  ClientRequest hurried = post();
  hurried.timeout_us = 2'999'999;
  Call& wait = send(std::move(hurried));
  ASSERT_TRUE(has_requests(0, 1));
  timers.advance(2'999'998);
  EXPECT_EQ(response.count + wait.count, 0);
  timers.advance(1);
  expect_failure(wait, TMESH_E_TIMEOUT, "wait");
  // An answer that comes drop by drop does not buy time.
  server.last().reply("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no");
  settle();
  timers.advance(1);
  expect_failure(response, TMESH_E_TIMEOUT, "response");
  EXPECT_EQ(client->connections_count(), 0u);
  make_undialed();
  Call& connect = send();
  EXPECT_EQ(fake_dialer.running().back().request.timeout_us, 3'000'000u);
  timers.advance(3'000'000);
  expect_failure(connect, TMESH_E_TIMEOUT, "connect");
  EXPECT_EQ(fake_dialer.cancelled_count(), 1u);
  EXPECT_EQ(timers.count(), 0u);
}

TEST_F(ClientTest, CloseIdleEndsIdleConnectionsNowAndBusyOnesAfterTheirAnswer) {
  Call& first = send();
  Call& busy = send();
  ASSERT_TRUE(has_requests(0, 1) && has_requests(1, 1));
  answer(0, first);
  EXPECT_EQ(client->connections_count(), 2u);
  client->close_idle();
  EXPECT_EQ(client->connections_count(), 1u);
  ASSERT_TRUE(run_until([&] { return server.peer(0).is_eof; }));
  answer(1, busy);
  EXPECT_TRUE(busy.is_ok());
  EXPECT_EQ(client->connections_count(), 0u);
  exchange(2);
  EXPECT_EQ(client->idle_count(), 1u) << "later ones are kept";
}

}  // namespace
}  // namespace tmesh::http
