#include "cpp/config/changes.hpp"

#include <unistd.h>

#include "cpp/base/log.hpp"
#include "tests/cpp/config/fixture.hpp"

namespace tmesh::config {
namespace {

using Names = std::vector<std::string_view>;

class ChangesTest : public ConfigTest {
 protected:
  static constexpr const char* kHead = "client:\n  server_url: wss://hub.example.com\n  token: t\n";
  Loaded<ClientConfig> with(const std::string& more) {
    file(kHead + more);
    return client(Purpose::print);
  }
  Changes changes(const std::string& before, const std::string& after) {
    const auto a = with(before);
    const auto b = with(after);
    return compare(a.settings, b.settings, kClient);
  }
  // What judge() writes.
  std::string said(const Loaded<ClientConfig>& started, const Loaded<ClientConfig>& fresh) {
    int pipe[2];
    EXPECT_EQ(::pipe(pipe), 0);
    log::set_fd(pipe[1]);
    is_accepted_ = judge(started.settings, fresh.settings, fresh.problems, kClient, stats_);
    log::set_fd(2);
    ::close(pipe[1]);
    std::string text(65536, '\0');
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::read(pipe[0], text.data(), text.size()))));
    ::close(pipe[0]);
    return text;
  }

  ReloadStats stats_;
  bool is_accepted_ = false;
};

TEST_F(ChangesTest, NothingChanged) {
  const Changes same = changes("  log_level: debug\n", "  log_level: debug # as before\n");
  EXPECT_TRUE(same.live.empty());
  EXPECT_TRUE(same.restart.empty());
}

TEST_F(ChangesTest, LiveAndRestartAreToldApart) {
  const Changes found = changes("", "  log_level: debug\n  instance_id: other\n");
  EXPECT_EQ(found.live, Names{"client.log_level"});
  EXPECT_EQ(found.restart, Names{"client.instance_id"});
}

TEST_F(ChangesTest, AnElementThatChanged) {
  const std::string a = "  tunnels: [{protocol: socks5, listen: '127.0.0.1:1', agent_id: a}]\n";
  const std::string b = "  tunnels: [{protocol: socks5, listen: '127.0.0.1:1', agent_id: b}]\n";
  EXPECT_EQ(changes(a, b).live, Names{"client.tunnels"});
  EXPECT_EQ(changes("  tunnels: [{name: x}]\n", "  tunnels: [{agent_id: x}]\n").live,
            Names{"client.tunnels"});
  EXPECT_TRUE(changes(a, a).live.empty());
}

TEST_F(ChangesTest, KeysOfOthersDoNotMatter) {
  EXPECT_TRUE(changes("", "agent:\n  id: x\nserver:\n  http_addr: ':1'\n").restart.empty());
}

TEST_F(ChangesTest, NorDoWhatHasNoEffect) {
  file("");
  const auto before = server(Purpose::print);
  file("server:\n  https_addr: ':444'\n  webssh: {idle_timeout: 1m}\n");
  EXPECT_TRUE(compare(before.settings, server(Purpose::print).settings, kServer).restart.empty());
}

TEST_F(ChangesTest, JudgeKeepsTheOldOneAndNamesThePlace) {
  const auto started = with("");
  const std::string text = said(started, with("  log_level: loud\n"));
  EXPECT_FALSE(is_accepted_);
  EXPECT_NE(text.find("c.yaml:4: client.log_level: must be one of"), std::string::npos) << text;
  EXPECT_NE(text.find("config_refused problems=1"), std::string::npos) << text;
  EXPECT_EQ(stats_.refused_count, 1u);
  EXPECT_EQ(stats_.applied_count, 0u);
}

TEST_F(ChangesTest, JudgeNamesWhatNeedsARestartInOneLine) {
  const auto started = with("");
  const std::string text =
      said(started, with("  instance_id: other\n  limits:\n    memory_budget: 8388608\n"));
  EXPECT_TRUE(is_accepted_);
  EXPECT_NE(text.find("config_needs_restart keys=\"client.instance_id, client.limits.memory_budget\""),
            std::string::npos)
      << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_EQ(stats_.applied_count, 1u);
}

TEST_F(ChangesTest, ALongListOfProblemsIsCut) {
  const auto started = with("");
  std::string bad;
  for (int i = 0; i < 100; i++) bad += "  unknown" + std::to_string(i) + ": 1\n";
  const std::string text = said(started, with(bad));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 21) << text;
  EXPECT_NE(text.find("problems=100"), std::string::npos);
}

}  // namespace
}  // namespace tmesh::config
