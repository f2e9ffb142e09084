// Real configuration files that change.
#include "cpp/reload/reloader.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "cpp/base/file.hpp"
#include "tests/cpp/net/loop_fixture.hpp"

namespace tmesh::reload {
namespace {

using Agent = config::AgentConfig;

// "bad" stands for a certificate that is none.
MadeTls make_tls(const Agent& config) {
  if (config.server.ca_file.ends_with("bad")) return std::unexpected(std::string("CA file: is bad"));
  return TlsContexts{};
}

class ReloaderTest : public net::LoopTest {
 protected:
  ReloaderTest() {
    std::string pattern = testing::TempDir() + "tmesh-reload-XXXXXX";
    folder = ::mkdtemp(pattern.data());
    EXPECT_EQ(::pipe(log_pipe), 0);
    ::fcntl(log_pipe[0], F_SETFL, O_NONBLOCK);
    log::set_fd(log_pipe[1]);
    write("token", "one");
    write("bad", "not a certificate");
    configure("");
    source.file = path("agent.yaml");
    started.emplace(config::load_agent(source, config::Purpose::run));
    EXPECT_TRUE(started->ok()) << started->problems.errors_text();
    auto made = Reloader<Agent>::create(loop(), {config::kAgent, &config::load_agent, &make_tls}, *started,
                                        source, Reloader<Agent>::Apply::bind<&ReloaderTest::on_fresh>(this));
    if (made) reloader = std::move(*made);
    // Until it knows what the files hold.
    reloader->request();
    wait_for(1);
  }
  ~ReloaderTest() override {
    reloader.reset();
    log::set_fd(2);
    ::close(log_pipe[0]);
    ::close(log_pipe[1]);
    std::filesystem::remove_all(folder);
  }
  std::string path(const std::string& name) const { return folder + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(write_file(path(name), text, 0600));
  }
  void configure(const std::string& more) const {
    write("agent.yaml", "agent:\n  server_url: wss://hub.example.com\n  id: a\n  token_file: " +
                            path("token") + "\n" + more);
  }
  void on_fresh(Fresh<Agent>& fresh) {
    applied++;
    last = std::move(fresh.loaded.config);
  }
  void wait_for(int count) {
    ASSERT_TRUE(run_until([&] { return applied >= count; }));
  }
  bool says(std::string_view what) {
    char buffer[4096];
    for (ssize_t n; (n = ::read(log_pipe[0], buffer, sizeof buffer)) > 0;) {
      said.append(buffer, static_cast<std::size_t>(n));
    }
    return said.find(what) != std::string::npos;
  }

  std::string folder;
  int log_pipe[2] = {-1, -1};
  std::string said;
  config::Source source;
  std::optional<config::Loaded<Agent>> started;
  std::unique_ptr<Reloader<Agent>> reloader;
  int applied = 0;
  Agent last;
};

TEST_F(ReloaderTest, AChangedFileIsLoaded) {
  configure("  log_level: debug\n");
  wait_for(2);
  EXPECT_EQ(last.log.level, log::Level::debug);
  EXPECT_EQ(reloader->stats().applied_count, 2u);
}

TEST_F(ReloaderTest, SoIsAChangedSecret) {
  write("token", "two");
  wait_for(2);
  EXPECT_EQ(last.token.reveal(), "two");
  EXPECT_FALSE(says("two"));
}

TEST_F(ReloaderTest, AFileThatIsNamedOnlyNowIsWatchedToo) {
  write("other", "three");
  configure("  tls: {ca_file: " + path("other") + "}\n");
  wait_for(2);
  write("other", "four");
  wait_for(3);
}

TEST_F(ReloaderTest, AProblemAppliesNothingAndIsNamed) {
  configure("  log_level: loud\n");
  ASSERT_TRUE(run_until([&] { return reloader->stats().refused_count == 1; }));
  EXPECT_TRUE(says("agent.yaml:5: agent.log_level: must be one of")) << said;
  EXPECT_EQ(applied, 1);
  configure("");
  wait_for(2);
  EXPECT_EQ(reloader->stats().refused_count, 1u) << "once for the content";
}

// The mistake may be in a file that only the refused configuration names.
TEST_F(ReloaderTest, AFileOfARefusedConfigurationIsWatched) {
  write("token2", "two words");
  write("agent.yaml",
        "agent:\n  server_url: wss://hub.example.com\n  id: a\n  token_file: " + path("token2") + "\n");
  ASSERT_TRUE(run_until([&] { return reloader->stats().refused_count == 1; }));
  write("token2", "one-word");
  wait_for(2);
  EXPECT_EQ(last.token.reveal(), "one-word");
}

// `--token-file <(...)`, a named pipe: its second reader would wait, and the end of the program for it.
TEST_F(ReloaderTest, APipeIsNotReadAgain) {
  std::filesystem::remove(path("token"));
  ASSERT_EQ(::mkfifo(path("token").c_str(), 0600), 0);
  reloader->request();
  ASSERT_TRUE(run_until([&] { return reloader->stats().refused_count == 1; }));
  EXPECT_TRUE(says("read only once"));
  std::filesystem::remove(path("agent.yaml"));
  ASSERT_EQ(::mkfifo(path("agent.yaml").c_str(), 0600), 0);
  reloader->request();
  ASSERT_TRUE(run_until([&] { return reloader->stats().refused_count == 2; }));
}

TEST_F(ReloaderTest, ACertificateThatCannotBeUsedIsAProblem) {
  configure("  tls: {ca_file: " + path("bad") + "}\n");
  ASSERT_TRUE(run_until([&] { return reloader->stats().refused_count == 1; }));
  EXPECT_TRUE(says("CA file: is bad"));
  EXPECT_EQ(applied, 1);
}

TEST_F(ReloaderTest, WatchingStopsAndBeginsWithTheKey) {
  configure("  config_watch: false\n");
  wait_for(2);
  configure("  config_watch: true\n");
  const uint64_t until_us = loop().now_us() + 3 * net::FileWatch::Pace{}.quiet_us;
  run_until([&] { return loop().now_us() >= until_us; });
  EXPECT_EQ(applied, 2);
  reloader->request();
  wait_for(3);
  configure("  log_level: debug\n");
  wait_for(4);
}

}  // namespace
}  // namespace tmesh::reload
