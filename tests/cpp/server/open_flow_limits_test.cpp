// What opens may not do however many there are: queues, ceilings, rapid resets.
#include <list>

#include "cpp/server/open_flow.hpp"
#include "tests/cpp/server/path_fixture.hpp"

namespace tmesh::server {
namespace {

using test::expect_result;
using test::FakeAgent;
using test::FakeClient;
using test::open_request;
using test::PlainStream;

struct OpenFlowLimitsTest : test::OneClientTest {};

TEST_F(OpenFlowLimitsTest, AFullQueueAnswersQueueFullAtOnce) {
  settings.concurrent_opens_max = 1;
  settings.pending_opens_max = 4;
  authorizer.is_slow = true;
  start();
  std::list<PlainStream> streams;
  for (int i = 0; i < 10; i++) open(streams.emplace_back());
  std::size_t refused = 0;
  for (PlainStream& s : streams) {
    if (!s.has_result) continue;
    expect_result(s, TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL, true);
    refused++;
  }
  EXPECT_EQ(refused, 7u) << "one runs, half of four wait";
}

TEST_F(OpenFlowLimitsTest, CeilingsOfTokenAndAgentAnswerQueueFullAndRecover) {
  settings.active_per_token_max = 2;
  start();
  FakeAgent& agent = add_agent();
  agent.answer = tmesh_open_accept();
  PlainStream a;
  PlainStream b;
  PlainStream c;
  for (PlainStream* s : {&a, &b, &c}) open(*s);
  expect_result(c, TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL, true);
  EXPECT_EQ(agent.opens.size(), 2u) << "a refused open makes no dial (LESSONS R21)";
  a.reset();
  pump();
  PlainStream d;
  open(d);
  EXPECT_TRUE(d.has_result && d.result.accepted);
}

TEST_F(OpenFlowLimitsTest, RapidResetOverSeveralLinksOfOneTokenCountsTogether) {
  start();
  FakeAgent& agent = add_agent();
  for (int link = 0; link < 4; link++) {
    FakeClient& crowd = add_client("crowd");
    for (uint32_t i = 0; i < CancelGuard::kCancelsMax; i++) {
      PlainStream stream;
      ASSERT_TRUE(stream.open(crowd.mux(), open_request("b", 2)));
      pump();
      if (!stream.is_over) stream.reset();
      pump();
    }
  }
  EXPECT_LE(agent.opens.size(), CancelGuard::kCancelsMax) << "what one link may, not four times that";
}

TEST_F(OpenFlowLimitsTest, OpensGivenUpAfterASecondAreNoRapidReset) {
  settings.concurrent_opens_max = settings.opens_per_link_max = 2 * CancelGuard::kCancelsMax;
  start();
  FakeAgent& agent = add_agent();
  for (const bool is_strict : {true, false}) {
    SCOPED_TRACE(is_strict);
    agent.opens.clear();
    std::list<PlainStream> hung(CancelGuard::kCancelsMax);
    for (PlainStream& stream : hung) ASSERT_TRUE(stream.open(client.mux(), open_request("b", 2), is_strict));
    pump();
    ASSERT_EQ(agent.opens.size(), hung.size());
    timers.advance(CancelGuard::kQuickUs);
    for (PlainStream& stream : hung) stream.reset();
    pump();
    PlainStream next;
    open(next);
    agent.last().accept();
    pump();
    EXPECT_TRUE(next.has_result && next.result.accepted);
    next.reset();
    pump();
  }
}

TEST_F(OpenFlowLimitsTest, RapidResetStaysWithinTheLimitsAndLeavesOthersAlone) {
  start();
  FakeAgent& agent = add_agent();
  FakeClient& other = add_client("other");
  for (const bool is_strict : {true, false}) {
    SCOPED_TRACE(is_strict);
    const std::size_t opens_before = agent.opens.size();
    for (int i = 0; i < 2000; i++) {
      PlainStream stream;
      open(stream, is_strict);  // reaches the agent
      if (!stream.is_over) stream.reset();
      pump();
      ASSERT_LE(service->executor().running_count(), settings.opens_per_link_max);
    }
    EXPECT_LE(agent.opens.size() - opens_before, 2u * CancelGuard::kCancelsMax);
    PlainStream unrelated;
    ASSERT_TRUE(unrelated.open(other.mux(), open_request("b", 2)));
    pump();
    agent.last().accept();
    pump();
    EXPECT_TRUE(unrelated.has_result && unrelated.result.accepted);
    unrelated.reset();
    pump();
    agent.streams.clear();
    timers.advance(11'000'000);
  }
  PlainStream again;
  open(again);
  agent.last().accept();
  pump();
  EXPECT_TRUE(again.has_result && again.result.accepted) << "the link may open again after the window";
}

TEST_F(OpenFlowLimitsTest, RapidResetInOneBatchRunsNothingForWhatIsGone) {
  start();
  FakeAgent& agent = add_agent();
  client.pair.is_held[0] = false;
  std::list<PlainStream> streams;
  for (int i = 0; i < 2000; i++) {
    ASSERT_TRUE(streams.emplace_back().open(client.mux(), open_request("a", 1)));
    client.pair.step();
    streams.back().reset();
    client.pair.step();
    ASSERT_LE(service->flows_count(), settings.pending_opens_max + settings.concurrent_opens_max);
  }
  pump();
  EXPECT_EQ(agent.opens.size(), 0u);
  expect_idle();
}

}  // namespace
}  // namespace tmesh::server
