// What a program tells about itself: report, JSON, text, places, socket and command.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "cpp/base/json.hpp"
#include "cpp/net/unix_socket.hpp"
#include "cpp/session/status_command.hpp"
#include "cpp/session/status_place.hpp"
#include "cpp/session/status_report.hpp"
#include "cpp/session/status_socket.hpp"
#include "cpp/session/status_text.hpp"
#include "tests/cpp/net/loop_fixture.hpp"

namespace tmesh::session {
namespace {

constexpr uint64_t kSecond_us = 1'000'000;

StatusReport report() {
  StatusReport out;
  out.program = "tunnelmesh-client";
  out.version = "1.2.3";
  out.pid = 42;
  out.started_us = 10 * kSecond_us;
  out.now_us = 3733 * kSecond_us;
  LinkReport up;
  up.agent = "agent-1";
  up.is_strict = true;
  up.slot.state = SlotStatus::State::up;
  up.slot.number = 1;
  up.slot.subprotocol = TMESH_SUBPROTOCOL_METADATA;
  up.slot.up_since_us = 3600 * kSecond_us;
  up.slot.rtt_us = 12'345;
  up.slot.streams_count = 3;
  up.slot.draining_count = 1;
  up.slot.draining_streams_count = 2;
  up.slot.links_count = 5;
  up.slot.last_failure = {"upgrade", "http", "the server does not accept the token", 401, 3700 * kSecond_us};
  out.add(up);
  LinkReport down;
  down.agent = "agent-2";
  down.slot.number = 1;
  out.add(down);
  out.add(EntryReport{"office", "socks5", "127.0.0.1:1080", 4, 10, 8, 2});
  return out;
}

TEST(StatusReport, TheDocumentSaysWhatThereIs) {
  const std::string text = status_json(report());
  EXPECT_EQ(text.back(), '\n');
  const auto parsed = json::parse(text);
  ASSERT_TRUE(parsed.has_value());
  const json::Value root = parsed->root();
  EXPECT_EQ(root.get("program").as_string(), "tunnelmesh-client");
  EXPECT_EQ(root.get("pid").as_int(), 42);
  EXPECT_EQ(root.get("uptime_seconds").as_int(), 3723);
  EXPECT_FALSE(root.get("agent"));
  const json::Value up = *root.get("links").begin();
  EXPECT_EQ(up.get("agent").as_string(), "agent-1");
  EXPECT_EQ(up.get("state").as_string(), "up");
  EXPECT_EQ(up.get("open_mode").as_string(), "strict");
  EXPECT_EQ(up.get("sub_protocol").as_string(), "tunnelmesh.v1.open-result.flow-control.metadata");
  EXPECT_EQ(up.get("up_seconds").as_int(), 133);
  EXPECT_EQ(up.get("rtt_us").as_int(), 12'345);
  EXPECT_EQ(up.get("streams").as_int(), 3);
  EXPECT_EQ(up.get("draining_links").as_int(), 1);
  EXPECT_EQ(up.get("draining_streams").as_int(), 2);
  EXPECT_EQ(up.get("reconnects").as_int(), 4);
  EXPECT_EQ(up.get("last_error").get("stage").as_string(), "upgrade");
  EXPECT_EQ(up.get("last_error").get("code").as_string(), "http");
  EXPECT_EQ(up.get("last_error").get("http_status").as_int(), 401);
  EXPECT_EQ(up.get("last_error").get("seconds_ago").as_int(), 33);
  const json::Value down = *++root.get("links").begin();
  EXPECT_EQ(down.get("state").as_string(), "connecting");
  EXPECT_EQ(down.get("open_mode").as_string(), "");
  EXPECT_TRUE(down.get("rtt_us").is_null());
  EXPECT_TRUE(down.get("last_error").is_null());
  EXPECT_EQ(down.get("reconnects").as_int(), 0);
  const json::Value entry = *root.get("entries").begin();
  EXPECT_EQ(entry.get("listen").as_string(), "127.0.0.1:1080");
  EXPECT_EQ(entry.get("accepted").as_int(), 10);
  EXPECT_EQ(entry.get("opens").as_int(), 8);
  EXPECT_EQ(entry.get("refused").as_int(), 2);
  EXPECT_EQ(entry.get("dropped").as_int(), 0);
  EXPECT_EQ(root.get("totals").get("links").as_int(), 2);
  EXPECT_EQ(root.get("totals").get("links_up").as_int(), 1);
  EXPECT_EQ(root.get("totals").get("streams").as_int(), 5);
  EXPECT_EQ(root.get("totals").get("locals").as_int(), 4);
}

TEST(StatusReport, CountersOfTheRoleStandTogether) {
  StatusReport counted = report();
  counted.counters = {{"opens", 7}, {"hedges", 0}};
  const std::string text = status_json(counted);
  const auto parsed = json::parse(text);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->root().get("counters").get("opens").as_int(), 7);
  EXPECT_EQ(parsed->root().get("counters").get("hedges").as_int(), 0);
}

TEST(StatusReport, WhatIsBeyondTheLimitsIsCountedOnly) {
  StatusReport many;
  for (std::size_t n = 0; n < StatusReport::kLinksMax + 3; n++)
    many.add(LinkReport{std::string(255, 'a'), true, {}});
  for (std::size_t n = 0; n < StatusReport::kEntriesMax + 2; n++) many.add(EntryReport{"n", "tcp", "l"});
  const std::string text = status_json(many);
  EXPECT_LT(text.size(), std::size_t{1} << 20);
  const auto parsed = json::parse(text);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->root().get("links").size(), StatusReport::kLinksMax);
  EXPECT_EQ(parsed->root().get("totals").get("links").as_int(), StatusReport::kLinksMax + 3);
  EXPECT_EQ(parsed->root().get("totals").get("links_left_out").as_int(), 3);
  EXPECT_EQ(parsed->root().get("totals").get("entries_left_out").as_int(), 2);
}

TEST(StatusText, ShowsLinksAndEntriesInColumns) {
  const Result<std::string> text = status_text(status_json(report()));
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(*text,
            "tunnelmesh-client 1.2.3, pid 42, up 1h02m\n"
            "links 1 of 2 up, streams 5\n"
            "\n"
            "AGENT    SLOT  STATE       UP     OPENS   RTT     STREAMS  DRAINING  RECONNECTS  LAST ERROR\n"
            "agent-1  1     up          2m13s  strict  12.3ms  3        2 on 1    4           "
            "upgrade http 401, 33s ago: the server does not accept the token\n"
            "agent-2  1     connecting  -      -       -       0        -         0           -\n"
            "\n"
            "ENTRY   PROTOCOL  LISTEN          LOCALS  ACCEPTED  OPENS  REFUSED\n"
            "office  socks5    127.0.0.1:1080  4       10        8      2\n");
}

TEST(StatusText, DroppedDatagramsAreShownWhenThereAreAny) {
  StatusReport dropped = report();
  dropped.entries[0].dropped_count = 12;
  dropped.add(EntryReport{"dns", "udp", "127.0.0.1:53", 1, 2, 3, 4});
  dropped.counters = {{"datagrams_dropped", 34}};
  EXPECT_NE(status_text(status_json(dropped))
                ->find("\n"
                       "ENTRY   PROTOCOL  LISTEN          LOCALS  ACCEPTED  OPENS  REFUSED  DROPPED\n"
                       "office  socks5    127.0.0.1:1080  4       10        8      2        12\n"
                       "dns     udp       127.0.0.1:53    1       2         3      4        0\n"
                       "datagrams dropped: 34\n"),
            std::string::npos);
}

TEST(StatusText, NothingOfADocumentMovesTheTerminal) {
  StatusReport evil = report();
  evil.entries[0].name = "\x1b[2J";
  EXPECT_EQ(status_text(status_json(evil))->find('\x1b'), std::string::npos);
}

TEST(StatusText, AnythingElseIsNoDocument) {
  for (const char* text : {"", "{}", "[]", "null", "{\"program\":\"x\"}", "{\"program\":1,\"links\":[]}"})
    EXPECT_FALSE(status_text(text).has_value()) << text;
  EXPECT_TRUE(status_text("{\"program\":\"x\",\"links\":[1,null,{}],\"entries\":7}").has_value());
}

TEST(StatusText, TimesAreShort) {
  EXPECT_EQ(short_time(0), "-");
  EXPECT_EQ(short_time(1), "<1ms");
  EXPECT_EQ(short_time(999), "<1ms");
  EXPECT_EQ(short_time(1000), "1.0ms");
  EXPECT_EQ(short_time(12'340), "12.3ms");
  EXPECT_EQ(short_time(4'100'000), "4.1s");
  EXPECT_EQ(short_age(-5), "0s");
  EXPECT_EQ(short_age(59), "59s");
  EXPECT_EQ(short_age(200), "3m20s");
  EXPECT_EQ(short_age(7'500), "2h05m");
  EXPECT_EQ(short_age(9 * 86'400 + 4 * 3'600), "9d04h");
}

class StatusPlaceTest : public net::LoopTest {
 protected:
  StatusPlaceTest() {
    char name[] = "/tmp/tmesh-status-XXXXXX";
    folder = ::mkdtemp(name);
    around.user = ::geteuid();
    around.run = folder + "/run";
    around.tmp = folder;
  }
  ~StatusPlaceTest() override { std::filesystem::remove_all(folder); }

  std::string tmp_role() const { return folder + "/tunnelmesh-" + std::to_string(around.user) + "/client"; }

  std::unique_ptr<StatusSocket> open(const std::string& path = "") {
    return std::make_unique<StatusSocket>(loop(), "client", path, StatusSocket::Fill::free<&fill>(nullptr),
                                          around);
  }
  static void fill(void*, StatusReport& out) { out.add(EntryReport{"office", "socks5", "127.0.0.1:1080"}); }

  std::string folder;
  StatusSurroundings around;
};

TEST_F(StatusPlaceTest, TheServiceManagersFolderComesFirstThenTheUsers) {
  around.user = 1000;
  around.xdg_runtime_dir = "/run/user/1000";
  around.runtime_directory = "/run/tunnelmesh/client";
  around.tmp = "/tmp";
  EXPECT_EQ(status_folders(around, "client"),
            (std::vector<std::string>{"/run/tunnelmesh/client", "/run/user/1000/tunnelmesh/client",
                                      "/tmp/tunnelmesh-1000/client"}));
  around.user = 0;
  around.runtime_directory.clear();
  around.xdg_runtime_dir.clear();
  around.run = "/run";
  EXPECT_EQ(status_folders(around, "agent"),
            (std::vector<std::string>{"/run/tunnelmesh/agent", "/tmp/tunnelmesh-0/agent"}));
}

TEST_F(StatusPlaceTest, WhoAsksLooksWhereverOneMayListen) {
  around.user = 1000;
  around.xdg_runtime_dir = "/run/user/1000";
  around.run = "/run";
  const auto asked = status_sockets_to_ask(around, "agent");
  EXPECT_EQ(asked.size(), 3 * kStatusSocketsMax);
  EXPECT_EQ(asked[0], "/run/user/1000/tunnelmesh/agent/status.sock");
  EXPECT_EQ(asked[1], "/run/user/1000/tunnelmesh/agent/status-2.sock");
  EXPECT_NE(std::find(asked.begin(), asked.end(), "/run/tunnelmesh/agent/status.sock"), asked.end())
      << "the system's service";
}

TEST_F(StatusPlaceTest, FoldersAreMadeForThisUserOnly) {
  ASSERT_TRUE(prepare_status_folder(tmp_role(), around.user));
  struct stat found{};
  ASSERT_EQ(::lstat(tmp_role().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0022, 0u);
  EXPECT_TRUE(prepare_status_folder(tmp_role(), around.user)) << "again";
}

TEST_F(StatusPlaceTest, AFolderThatOthersWriteToIsNotUsed) {
  std::filesystem::create_directories(tmp_role());
  ASSERT_EQ(::chmod(tmp_role().c_str(), 0777), 0);
  EXPECT_FALSE(prepare_status_folder(tmp_role(), around.user));
  ASSERT_EQ(::chmod(tmp_role().c_str(), 0700), 0);
  EXPECT_TRUE(prepare_status_folder(tmp_role(), around.user));
  ASSERT_EQ(::chmod(std::filesystem::path(tmp_role()).parent_path().c_str(), 0777), 0);
  EXPECT_FALSE(prepare_status_folder(tmp_role(), around.user)) << "others could replace it";
}

TEST_F(StatusPlaceTest, AFolderOfAnotherUserOrALinkIsNotUsed) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to make another user's folder";
  std::filesystem::create_directories(tmp_role());
  ASSERT_EQ(::chown(tmp_role().c_str(), 1234, 1234), 0);
  EXPECT_FALSE(prepare_status_folder(tmp_role(), 1000));
  std::filesystem::remove(tmp_role());
  std::filesystem::create_directory_symlink(folder, tmp_role());
  EXPECT_FALSE(prepare_status_folder(tmp_role(), around.user));
}

TEST_F(StatusPlaceTest, SeveralProgramsOfOneUserEachGetASocket) {
  const auto first = open();
  const auto second = open();
  EXPECT_EQ(first->path(), tmp_role() + "/status.sock");
  EXPECT_EQ(second->path(), tmp_role() + "/status-2.sock");
}

TEST_F(StatusPlaceTest, WithoutAPlaceTheProgramWorksAllTheSame) {
  around.tmp = folder + "/missing";
  EXPECT_EQ(open()->path(), "");
}

TEST_F(StatusPlaceTest, ANamedSocketIsTheOnlyPlace) {
  EXPECT_EQ(open(folder + "/named.sock")->path(), folder + "/named.sock");
  EXPECT_EQ(open(folder + "/missing/s.sock")->path(), "");
  const auto first = open(folder + "/named.sock");
  EXPECT_EQ(open(folder + "/named.sock")->path(), "") << "another program has it";
  EXPECT_EQ(first->path(), folder + "/named.sock");
}

// Something else behind a status socket: says its pieces with a pause behind each.
class Speaker {
 public:
  Speaker(const std::string& place, std::vector<std::string> pieces)
      : path(place), pieces_(std::move(pieces)) {
    const Result<int> listening = net::listen_unix(path, 0600);
    EXPECT_TRUE(listening.has_value());
    fd_ = listening.value_or(-1);
    thread_ = std::thread([this] {
      pollfd asked{fd_, POLLIN, 0};
      (void)::poll(&asked, 1, 20'000);
      const int peer = ::accept(fd_, nullptr, nullptr);
      for (const std::string& piece : pieces_) {
        if (::send(peer, piece.data(), piece.size(), MSG_NOSIGNAL) < 0) break;
        said_++;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      ::close(peer);
    });
  }
  ~Speaker() {
    stop();
    ::close(fd_);
  }
  // How many pieces somebody took.
  std::size_t stop() {
    if (thread_.joinable()) thread_.join();
    return said_;
  }

  const std::string path;

 private:
  const std::vector<std::string> pieces_;
  int fd_ = -1;
  std::size_t said_ = 0;
  std::thread thread_;
};

class StatusCommandTest : public StatusPlaceTest {
 protected:
  StatusCommandTest() { request.role = "client"; }
  ~StatusCommandTest() override {
    std::free(out_text);
    std::free(err_text);
  }
  // Runs the command beside the loop.
  void run() {
    std::free(out_text);
    std::free(err_text);
    request.around = around;
    request.out = ::open_memstream(&out_text, &out_size);
    request.err = ::open_memstream(&err_text, &err_size);
    std::atomic<bool> is_over = false;
    std::thread asker([&] {
      code = run_status(request);
      is_over = true;
    });
    EXPECT_TRUE(run_until([&] { return is_over.load(); }, 20'000'000));
    asker.join();
    std::fclose(request.out);
    std::fclose(request.err);
  }
  std::string out() const { return {out_text, out_size}; }
  std::string err() const { return {err_text, err_size}; }

  StatusRequest request;
  int code = -1;
  char* out_text = nullptr;
  char* err_text = nullptr;
  std::size_t out_size = 0;
  std::size_t err_size = 0;
};

TEST_F(StatusCommandTest, FindsWhatRunsAndPrintsIt) {
  const auto socket = open();
  run();
  EXPECT_EQ(code, 0) << err();
  EXPECT_TRUE(out().starts_with("tunnelmesh-client ")) << out();
  EXPECT_NE(out().find("office"), std::string::npos);
  EXPECT_EQ(err(), "");
}

TEST_F(StatusCommandTest, JsonIsOneLinePerProgram) {
  const auto first = open();
  const auto second = open();
  request.is_json = true;
  run();
  EXPECT_EQ(code, 0);
  const std::string text = out();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_TRUE(json::parse(text.substr(0, text.find('\n'))).has_value());
}

TEST_F(StatusCommandTest, WatchAsksAgain) {
  const auto socket = open();
  request.is_json = true;
  request.is_watch = true;
  request.watch_rounds_max = 2;
  request.watch_every_us = 1000;
  run();
  EXPECT_EQ(code, 0);
  const std::string text = out();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

// `status --json --watch | head -1`, and the program has ended: nothing is printed that could fail.
TEST_F(StatusCommandTest, WatchEndsWithItsReader) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  request.is_json = true;
  request.is_watch = true;
  request.watch_rounds_max = 3;
  request.watch_every_us = 1000;
  request.socket = folder + "/nobody.sock";
  request.out = ::fdopen(ends[1], "w");
  request.err = ::open_memstream(&err_text, &err_size);
  EXPECT_EQ(run_status(request), 1);
  std::fclose(request.out);
  std::fclose(request.err);
  EXPECT_EQ(std::count(err_text, err_text + err_size, '\n'), 1) << "not once more";
}

TEST_F(StatusCommandTest, WhatIsNoDocumentIsNoAnswerInJsonEither) {
  Speaker speaker(folder + "/s.sock", {"{\"program\": \"x\"}\n\033]0;gotcha\007\n"});
  request.socket = speaker.path;
  request.is_json = true;
  run();
  EXPECT_EQ(code, 1);
  EXPECT_EQ(out(), "");
  EXPECT_NE(err().find("gives no answer"), std::string::npos) << err();
}

// A byte now and then is no answer either.
TEST_F(StatusCommandTest, WhoAnswersSlowlyIsLeft) {
  Speaker speaker(folder + "/s.sock", std::vector<std::string>(300, " "));
  request.socket = speaker.path;
  request.patience_us = 100'000;
  run();
  EXPECT_EQ(code, 1);
  EXPECT_LT(speaker.stop(), 300u);
}

TEST_F(StatusCommandTest, WhenNothingRunsItSaysWhereItLooked) {
  run();
  EXPECT_EQ(code, 1);
  EXPECT_EQ(out(), "");
  EXPECT_TRUE(err().starts_with("no tunnelmesh-client runs; looked for a status socket in " + tmp_role()))
      << err();
}

TEST_F(StatusCommandTest, ANamedSocketIsTheOnlyOneAsked) {
  const auto other = open();
  request.socket = folder + "/named.sock";
  run();
  EXPECT_EQ(code, 1);
  EXPECT_EQ(err(), "no tunnelmesh-client runs with the status socket " + request.socket + "\n");
}

TEST_F(StatusCommandTest, AStaleFileIsNobody) {
  const Result<int> fd = net::listen_unix(folder + "/s.sock", 0600);
  ASSERT_TRUE(fd.has_value());
  ::close(*fd);
  request.socket = folder + "/s.sock";
  run();
  EXPECT_EQ(code, 1);
}

TEST_F(StatusCommandTest, RootBelievesAnotherUserOnlyWhereRootDecidesWhoListens) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  ASSERT_EQ(::chmod(folder.c_str(), 0777), 0);
  // Who listens is who did when it began to.
  const auto open_as_another = [&](const std::string& path) {
    const std::string place = path.substr(0, path.rfind('/'));
    std::filesystem::create_directories(place);
    EXPECT_EQ(::chmod(place.c_str(), 0777), 0);
    EXPECT_EQ(::seteuid(65534), 0);
    auto socket = open(path);
    EXPECT_EQ(::seteuid(0), 0);
    EXPECT_EQ(socket->path(), path);
    return socket;
  };
  {
    const auto trap = open_as_another(tmp_role() + "/status.sock");
    run();
    EXPECT_EQ(code, 1) << out();
    EXPECT_NE(err().find("belongs to another user"), std::string::npos) << err();
  }
  const auto service = open_as_another(around.run + "/tunnelmesh/client/status.sock");
  run();
  EXPECT_EQ(code, 0) << err();
}

}  // namespace
}  // namespace tmesh::session
