#include "cpp/server/agent_service.hpp"

#include "cpp/server/token_validity.hpp"
#include "tests/cpp/server/access_fixture.hpp"

namespace tmesh::server {
namespace {

struct Agents : test::AccessFixture {
  storage::AgentRecord row(const std::string& id) { return *(*storage::AgentRepository(*db).find(id)); }
};

constexpr const char* bad_name = "an agent name has 1 to 255 printable bytes, and no space at an end";
constexpr const char* no_owner = "the owner is not there, disabled or deleted";

TEST_F(Agents, AreCreatedWithTheirOptions) {
  const storage::AgentRecord made =
      *change([this](AgentService s) { return s.create("lab", bob, {{"tcp", "übung"}, false}); });
  const storage::AgentRecord stored = row(made.id);
  EXPECT_EQ(made.id.size(), 30U);
  EXPECT_TRUE(made.id.starts_with("agent-"));
  EXPECT_EQ(stored.name, "lab");
  EXPECT_EQ(stored.owner_user_id, bob.id);
  EXPECT_EQ(stored.capabilities, "[\"tcp\",\"übung\"]");
  EXPECT_FALSE(stored.is_enabled);
  EXPECT_EQ(last_action(), "agent.create");
}

TEST_F(Agents, NamesAreChecked) {
  std::vector<std::string> bad = test::hostile_texts();
  bad.emplace_back("");
  bad.emplace_back(256, 'a');
  for (const std::string& name : bad) {
    expect_refused([&](AgentService s) { return s.create(name, alice); }, TMESH_E_INVALID, bad_name);
    expect_refused([&](AgentService s) { return s.rename(home, name); }, TMESH_E_INVALID, bad_name);
  }
  for (const std::string& name : test::injections())
    EXPECT_EQ(row(change([&](AgentService s) { return s.create(name, alice); })->id).name, name);
  EXPECT_TRUE(change([&](AgentService s) { return s.create(std::string(255, 'a'), alice); }));
}

TEST_F(Agents, CapabilitiesAreBounded) {
  const char* text = "capabilities are at most 64 texts of 1 to 64 printable bytes each";
  std::vector<std::string> bad = test::hostile_texts();
  bad.emplace_back("");
  bad.emplace_back(65, 'a');
  for (const std::string& capability : bad) {
    expect_refused([&](AgentService s) { return s.create("lab", alice, {{capability}, true}); },
                   TMESH_E_INVALID, text);
  }
  const std::vector<std::string> full(64, std::string(64, 'a'));
  EXPECT_TRUE(change([&](AgentService s) { return s.set_capabilities(home, full); }));
  std::vector<std::string> over = full;
  over.emplace_back("b");
  expect_refused([&](AgentService s) { return s.set_capabilities(home, over); }, TMESH_E_INVALID, text);
}

TEST_F(Agents, TheOwnerMustBeALiveUser) {
  storage::UserRecord ghost;
  ghost.id = "user-none";
  expect_refused([&](AgentService s) { return s.create("lab", ghost); }, TMESH_E_INVALID, no_owner);
  change([this](UserService s) { return s.set_disabled(bob, true); });
  expect_refused([this](AgentService s) { return s.create("lab", bob); }, TMESH_E_INVALID, no_owner);
  expect_refused([this](AgentService s) { return s.set_owner(home, bob.id); }, TMESH_E_INVALID, no_owner);
  change([this](UserService s) { return s.set_disabled(bob, false); });
  change([this](UserService s) { return s.remove(bob); });
  expect_refused([this](AgentService s) { return s.create("lab", bob); }, TMESH_E_INVALID, no_owner);
}

TEST_F(Agents, WhatDecidesStepsTheRevisionOnceAndNothingElseDoes) {
  EXPECT_EQ(steps([this](AgentService s) { return s.create("lab", alice); }), 1U);
  EXPECT_EQ(steps([this](AgentService s) { return s.rename(home, "house"); }), 0U);
  EXPECT_EQ(last_action(), "agent.rename");
  EXPECT_EQ(steps([this](AgentService s) { return s.set_capabilities(home, {"x"}); }), 0U);
  EXPECT_EQ(last_action(), "agent.describe");
  EXPECT_EQ(steps([this](AgentService s) { return s.set_enabled(home, false); }), 1U);
  EXPECT_EQ(last_action(), "agent.disable");
  EXPECT_EQ(steps([this](AgentService s) { return s.set_enabled(home, true); }), 1U);
  EXPECT_EQ(steps([this](AgentService s) { return s.set_owner(home, bob.id); }), 1U);
  EXPECT_EQ(last_action(), "agent.change_owner");
  EXPECT_EQ(steps([this](AgentService s) { return s.remove(home); }), 1U);
  EXPECT_EQ(last_action(), "agent.delete");
}

TEST_F(Agents, WhatIsAsWantedStaysAsItIs) {
  const std::string entries = audited();
  EXPECT_EQ(steps([this](AgentService s) { return s.set_enabled(home, true); }), 0U);
  EXPECT_EQ(steps([this](AgentService s) { return s.set_owner(home, alice.id); }), 0U);
  EXPECT_EQ(steps([this](AgentService s) { return s.rename(home, "home"); }), 0U);
  EXPECT_EQ(steps([this](AgentService s) { return s.set_capabilities(home, {}); }), 0U);
  EXPECT_EQ(audited(), entries);
}

TEST_F(Agents, ANewOwnerEndsWhatTheOldOnesTokensMay) {
  ASSERT_TRUE(ask(client));
  change([this](AgentService s) { return s.set_owner(home, bob.id); });
  EXPECT_STREQ(ask(client).error().text, "the agent has another owner");
  EXPECT_EQ(*token_status(*db, agent_token.token, time.now_us), TokenStatus::unavailable);
}

TEST_F(Agents, DeletionTakesThePoliciesAndLeavesTheTokensUseless) {
  change([this](AgentService s) { return s.remove(home); });
  EXPECT_EQ(*storage::PolicyRepository(*db).count_of_agent(home.id), 0);
  EXPECT_EQ(*token_status(*db, agent_token.token, time.now_us), TokenStatus::unavailable);
  EXPECT_STREQ(ask(client).error().text, "the agent does not exist");
  expect_refused([this](AgentService s) { return s.remove(home); }, TMESH_E_STATE,
                 "the row to change does not exist");
}

TEST_F(Agents, AnOwnerHasAtMostAThousand) {
  change([this](const ChangeScope& scope) -> Result<void> {
    storage::AgentRecord agent = home;
    for (int i = 1; i < AgentService::agents_per_owner_max; ++i) {
      agent.id = "agent-" + std::to_string(i);
      if (Result<void> done = storage::AgentRepository::create(scope.tx(), agent); !done) return done;
    }
    return {};
  });
  const char* text = "the owner has 1000 agents already";
  expect_refused([this](AgentService s) { return s.create("one more", alice); }, TMESH_E_STATE, text);
  const storage::AgentRecord bobs = *change([this](AgentService s) { return s.create("lab", bob); });
  expect_refused(
      [&](AgentService s) {
        storage::AgentRecord changed = bobs;
        return s.set_owner(changed, alice.id);
      },
      TMESH_E_STATE, text);
}

}  // namespace
}  // namespace tmesh::server
