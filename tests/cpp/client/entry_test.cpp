// What holds for every entry that accepts connections, on a port and on a Unix socket.
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/un.h>

#include <filesystem>

#include "cpp/client/stream_entry.hpp"
#include "tests/cpp/client/entry_fixture.hpp"

namespace tmesh::client {
namespace {

using Protocol = config::Tunnel::Protocol;

struct Kind {
  Protocol protocol;
  bool is_unix;
};

std::string kind_name(const ::testing::TestParamInfo<Kind>& info) {
  std::string name(config::protocol_name(info.param.protocol));
  std::erase(name, '-');
  return name + (info.param.is_unix ? "OnAUnixSocket" : "");
}

class AnyEntryTest : public EntryTest, public ::testing::WithParamInterface<Kind> {
 protected:
  AnyEntryTest() {
    char name[] = "/tmp/tmesh-entry-XXXXXX";
    folder = ::mkdtemp(name);
    tunnel.protocol = GetParam().protocol;
    tunnel.target_host = "target";
    tunnel.target_port = 80;
    if (GetParam().is_unix) tunnel.socket_path = folder + "/x.sock";
  }
  ~AnyEntryTest() override {
    for (const int fd : clients) ::close(fd);
    std::filesystem::remove_all(folder);
  }
  // A connected socket that says nothing, or -1.
  int connect_to() {
    const bool is_unix = GetParam().is_unix;
    const int fd = ::socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc = -1;
    if (is_unix) {
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      tunnel.socket_path.copy(address.sun_path, sizeof address.sun_path - 1);
      rc = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    } else {
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(entry->port());
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      rc = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    }
    if (rc == 0) {
      ::fcntl(fd, F_SETFL, O_NONBLOCK);
      return clients.emplace_back(fd);
    }
    ::close(fd);
    return -1;
  }
  static bool is_over(int fd) {
    char byte;
    const ssize_t n = ::recv(fd, &byte, 1, MSG_PEEK);
    return n == 0 || (n < 0 && errno != EAGAIN);
  }
  // The entry's listening socket.
  int listener_fd() {
    for (int fd = 3; fd < 1024; fd++) {
      int value = 0;
      socklen_t len = sizeof value;
      if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &len) != 0 || value == 0) continue;
      sockaddr_storage address{};
      len = sizeof address;
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &len);
      if (GetParam().is_unix && address.ss_family == AF_UNIX) return fd;
      const auto* four = reinterpret_cast<const sockaddr_in*>(&address);
      if (!GetParam().is_unix && address.ss_family == AF_INET && ntohs(four->sin_port) == entry->port())
        return fd;
    }
    return -1;
  }

  std::string folder;
  std::vector<int> clients;
};

// LESSONS R22. A Unix socket has no address that could go away.
TEST_P(AnyEntryTest, ADeadListenerIsReportedOnce) {
  if (GetParam().is_unix) return;
  make();
  // What the kernel does to a listening socket when its address goes away.
  ASSERT_EQ(::shutdown(listener_fd(), SHUT_RDWR), 0);
  destroys_when_broken = true;
  ASSERT_TRUE(run_until([&] { return broken_count > 0; }));
  run_for(10'000);
  EXPECT_EQ(broken_count, 1u);
}

// The kernel hands both down to what is accepted.
TEST_P(AnyEntryTest, LocalSocketsSendAtOnceAndAreKeptAlive) {
  if (GetParam().is_unix) return;
  make();
  int no_delay = 0;
  int keep_alive = 0;
  socklen_t len = sizeof no_delay;
  ASSERT_EQ(::getsockopt(listener_fd(), IPPROTO_TCP, TCP_NODELAY, &no_delay, &len), 0);
  ASSERT_EQ(::getsockopt(listener_fd(), SOL_SOCKET, SO_KEEPALIVE, &keep_alive, &len), 0);
  EXPECT_NE(no_delay, 0);
  EXPECT_NE(keep_alive, 0);
}

// With the descriptor in reserve, or, when not even that one helps, later.
TEST_P(AnyEntryTest, WithoutDescriptorsNewcomersAreClosedAndLaterOnesServed) {
  make();
  ASSERT_GE(connect_to(), 0);
  ASSERT_TRUE(run_until([&] { return entry->locals_count() == 1; }));
  // Those of the clients are there already: connected below, they wait in the backlog.
  for (int i = 0; i < 20; i++) ASSERT_GE(connect_to(), 0);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const auto limit_to = [&](int count) {
    const rlimit low{static_cast<rlim_t>(count), before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  };
  limit_to(clients.back() + 1);
  std::vector<int> fillers;
  for (int fd = 0; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) fillers.push_back(fd);
  EXPECT_TRUE(run_until([&] { return std::count_if(clients.begin(), clients.end(), is_over) == 20; }));
  EXPECT_FALSE(is_over(clients.front())) << "who was in stays";
  for (const int fd : fillers) ::close(fd);
  limit_to(1024);
  ASSERT_GE(connect_to(), 0);
  limit_to(3);
  run_for(50'000);
  EXPECT_EQ(entry->locals_count(), 1u);
  EXPECT_EQ(broken_count, 0u);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(run_until([&] { return entry->locals_count() == 2; }));
}

TEST_P(AnyEntryTest, ATakenPlaceIsRefusedAndLeftAlone) {
  make();
  config::Tunnel same = tunnel;
  same.listen.port = entry->port();
  const auto second = make_entry(deps, same, {});
  const auto listening = second->listen();
  ASSERT_FALSE(listening.has_value());
  EXPECT_EQ(listening.error().code, TMESH_E_REFUSED);
  EXPECT_EQ(second->port(), 0);
  ASSERT_GE(connect_to(), 0);
  ASSERT_TRUE(run_until([&] { return entry->locals_count() == 1; })) << "the first one's";
}

// Requirement J4; on a Unix socket the file goes too, so that the next program finds the place free.
TEST_P(AnyEntryTest, AfterStopListeningThePlaceIsFree) {
  make();
  const uint16_t port = entry->port();
  entry->stop_listening();
  EXPECT_LT(connect_to(), 0);
  config::Tunnel same = tunnel;
  same.listen.port = port;
  const auto next = make_entry(deps, same, {});
  EXPECT_TRUE(next->listen().has_value());
}

// Locals that do nothing and need no descriptor.
class CrowdedEntry final : public StreamEntry {
 public:
  using StreamEntry::StreamEntry;
  using StreamEntry::take;
  ~CrowdedEntry() override { close(); }

  struct Idle final : Local {
    void start(int fd) override { ::close(fd); }
    bool is_idle() const override { return true; }
  };
  Local* newest = nullptr;

 private:
  std::unique_ptr<Local> make_local() override {
    auto made = std::make_unique<Idle>();
    newest = made.get();
    return made;
  }
};

TEST_F(EntryTest, BeyondTheLimitNewcomersAreClosedUntilOneHasGone) {
  CrowdedEntry crowd(deps, tunnel, {});
  const auto come = [&] {
    const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    crowd.take(fd);
    EXPECT_EQ(::fcntl(fd, F_GETFD), -1);
  };
  for (std::size_t n = 0; n < StreamEntry::kLocalsMax; n++) come();
  EXPECT_EQ(crowd.stats().over_limit_count, 0u);
  come();
  EXPECT_EQ(crowd.stats().over_limit_count, 1u);
  EXPECT_EQ(crowd.locals_count(), StreamEntry::kLocalsMax);
  crowd.remove(*crowd.newest);
  come();
  EXPECT_EQ(crowd.stats().over_limit_count, 1u);
  EXPECT_EQ(crowd.locals_count(), StreamEntry::kLocalsMax);
}

INSTANTIATE_TEST_SUITE_P(Entries, AnyEntryTest,
                         ::testing::Values(Kind{Protocol::tcp, false}, Kind{Protocol::tcp, true},
                                           Kind{Protocol::socks5, false}, Kind{Protocol::socks5, true},
                                           Kind{Protocol::http, false}, Kind{Protocol::http_proxy, false},
                                           Kind{Protocol::http_proxy, true}),
                         kind_name);

}  // namespace
}  // namespace tmesh::client
