// Files of Unix sockets, and the socket that answers with a document.
#include "cpp/net/unix_socket.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "cpp/net/document_socket.hpp"
#include "cpp/net/listener.hpp"
#include "tests/cpp/net/loop_fixture.hpp"

namespace tmesh::net {
namespace {

int connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    ::fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
  }
  ::close(fd);
  return -1;
}

class UnixSocketTest : public LoopTest {
 protected:
  UnixSocketTest() {
    char name[] = "/tmp/tmesh-unix-XXXXXX";
    folder = ::mkdtemp(name);
    path = folder + "/status.sock";
  }
  ~UnixSocketTest() override { std::filesystem::remove_all(folder); }

  bool exists() const { return std::filesystem::exists(std::filesystem::symlink_status(path)); }

  std::string folder;
  std::string path;
};

TEST_F(UnixSocketTest, TheFileHasItsMode) {
  const Result<int> fd = listen_unix(path, 0600);
  ASSERT_TRUE(fd.has_value());
  struct stat found{};
  ASSERT_EQ(::lstat(path.c_str(), &found), 0);
  EXPECT_TRUE(S_ISSOCK(found.st_mode));
  EXPECT_EQ(found.st_mode & 07777, 0600u);
  ::close(*fd);
}

TEST_F(UnixSocketTest, AFileThatAKilledProcessLeftIsReplaced) {
  const Result<int> old = listen_unix(path, 0600);
  ASSERT_TRUE(old.has_value());
  ::close(*old);  // as the kernel does; the file stays
  ASSERT_TRUE(exists());
  const Result<int> fd = listen_unix(path, 0600);
  ASSERT_TRUE(fd.has_value()) << fd.error().text;
  const int client = connect_to(path);
  EXPECT_GE(client, 0);
  ::close(client);
  ::close(*fd);
}

TEST_F(UnixSocketTest, AFileInUseIsLeftAlone) {
  const Result<int> fd = listen_unix(path, 0600);
  ASSERT_TRUE(fd.has_value());
  const Result<int> second = listen_unix(path, 0600);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, TMESH_E_REFUSED);
  const int client = connect_to(path);
  EXPECT_GE(client, 0) << "the first one is still there";
  ::close(client);
  ::close(*fd);
}

TEST_F(UnixSocketTest, AFileThatIsNoSocketIsLeftAlone) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  std::fputs("mine", file);
  std::fclose(file);
  const Result<int> fd = listen_unix(path, 0600);
  ASSERT_FALSE(fd.has_value());
  EXPECT_EQ(fd.error().code, TMESH_E_REFUSED);
  EXPECT_EQ(std::filesystem::file_size(path), 4u);
}

// Whoever may read the folder can hold a lock on it for ever.
TEST_F(UnixSocketTest, ALockedFolderHoldsNobodyUpForLong) {
  const int lock = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  ::alarm(20);  // would be the end of this program
  const Result<int> fd = listen_unix(path, 0600);
  ::alarm(0);
  ASSERT_TRUE(fd.has_value());
  ::close(*fd);
  ::close(lock);
}

TEST_F(UnixSocketTest, APathThatCannotBeIsRefusedInWords) {
  EXPECT_EQ(listen_unix(folder + "/none/x.sock", 0600).error().code, TMESH_E_INVALID);
  EXPECT_EQ(listen_unix(folder + "/" + std::string(108, 'x'), 0600).error().code, TMESH_E_INVALID);
  EXPECT_EQ(listen_unix("", 0600).error().code, TMESH_E_INVALID);
}

TEST_F(UnixSocketTest, TheEndOfAProgramRemovesItsOwnFileOnly) {
  const Result<int> fd = listen_unix(path, 0600);
  ASSERT_TRUE(fd.has_value());
  {
    const UnixSocketFile file(path);
    ::close(*fd);
    std::filesystem::rename(path, path + ".old");  // keeps the number of the file in use
    const Result<int> later = listen_unix(path, 0600);
    ASSERT_TRUE(later.has_value());
    ::close(*later);
  }
  EXPECT_TRUE(exists()) << "the later program's";
  {
    const UnixSocketFile file(path);
  }
  EXPECT_FALSE(exists());
}

// An entry would open a stream for it.
TEST_F(UnixSocketTest, ALookAtALiveSocketConnectsToNobody) {
  const Result<int> fd = listen_unix(path, 0600);
  ASSERT_TRUE(fd.has_value());
  EXPECT_FALSE(listen_unix(path, 0600).has_value());
  EXPECT_EQ(::accept4(*fd, nullptr, nullptr, SOCK_NONBLOCK), -1);
  EXPECT_EQ(errno, EAGAIN);
  ::close(*fd);
}

TEST_F(UnixSocketTest, ASocketThatIsNotListeningYetIsInUseToo) {
  const int bound = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(bound, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(listen_unix(path, 0600).error().code, TMESH_E_REFUSED);
  ::close(bound);
}

TEST_F(UnixSocketTest, AnOwnerIsANameOrANumberAndMayHaveAGroup) {
  const auto own = [&](const std::string& owner) { return listen_unix({path, 0660, owner}); };
  EXPECT_STREQ(own("no-such-user").error().text, "there is no such user");
  EXPECT_STREQ(own("root:no-such-group").error().text, "there is no such group");
  EXPECT_STREQ(own("4294967295").error().text, "there is no such user");
  EXPECT_FALSE(exists()) << "nothing is made for an owner that is not there";
  const uid_t user = ::geteuid() == 0 ? 65534 : ::geteuid();
  const gid_t group = ::geteuid() == 0 ? 65533 : ::getegid();
  const std::string me = ::getpwuid(::geteuid())->pw_name;
  for (const std::string& owner :
       {std::to_string(user), std::to_string(user) + ":" + std::to_string(group), me}) {
    const Result<int> fd = own(owner);
    ASSERT_TRUE(fd.has_value()) << owner << ": " << fd.error().text;
    struct stat found{};
    ASSERT_EQ(::lstat(path.c_str(), &found), 0);
    EXPECT_EQ(found.st_uid, owner == me ? ::geteuid() : user);
    EXPECT_EQ(found.st_gid, owner.find(':') == std::string::npos ? ::getegid() : group);
    EXPECT_EQ(found.st_mode & 07777, 0660u);
    ::close(*fd);
    ::unlink(path.c_str());
  }
}

TEST_F(UnixSocketTest, AnOwnerThatWeMayNotGiveItToIsSaidSo) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
  std::filesystem::permissions(folder, std::filesystem::perms::all);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(2);
    const Result<int> fd = listen_unix({path, 0600, "root"});
    ::_exit(!fd && fd.error().code == TMESH_E_POLICY && !exists() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

class UnixListenerTest : public UnixSocketTest {
 protected:
  ~UnixListenerTest() override {
    for (const int fd : accepted) ::close(fd);
  }
  Result<Listener> open() {
    return Listener::open_unix(loop(), {path, 0600, {}},
                               {Delegate<void(int, const Peer&)>::bind<&UnixListenerTest::on_accept>(this),
                                Delegate<void(tmesh_status)>::bind<&UnixListenerTest::on_broken>(this)});
  }
  void on_accept(int fd, const Peer& peer) {
    accepted.push_back(fd);
    last = peer.text();
  }
  void on_broken(tmesh_status) { ADD_FAILURE(); }

  std::vector<int> accepted;
  std::string last;
};

TEST_F(UnixListenerTest, WhoConnectsIsLocal) {
  auto listener = open();
  ASSERT_TRUE(listener.has_value());
  EXPECT_EQ(listener->port(), 0);
  const int client = connect_to(path);
  ASSERT_TRUE(run_until([&] { return accepted.size() == 1; }));
  EXPECT_EQ(last, "local");
  ::close(client);
}

TEST_F(UnixListenerTest, ItsFileGoesWithIt) {
  {
    auto listener = open();
    ASSERT_TRUE(listener.has_value());
    EXPECT_TRUE(exists());
    EXPECT_EQ(open().error().code, TMESH_E_REFUSED);
    EXPECT_TRUE(exists());
    Listener moved = std::move(*listener);
    EXPECT_TRUE(exists());
  }
  EXPECT_FALSE(exists());
}

TEST_F(UnixListenerTest, AFileThatIsNotItsOwnStays) {
  auto listener = open();
  ASSERT_TRUE(listener.has_value());
  ::unlink(path.c_str());
  const Result<int> other = listen_unix(path, 0600);
  ASSERT_TRUE(other.has_value());
  listener->close();
  EXPECT_TRUE(exists());
  ::close(*other);
}

class DocumentSocketTest : public UnixSocketTest {
 protected:
  Result<std::unique_ptr<DocumentSocket>> try_open() {
    return DocumentSocket::open(
        loop(), path, DocumentSocket::Document::bind<&DocumentSocketTest::on_document>(this), timeout_us);
  }
  void open() {
    auto made = try_open();
    ASSERT_TRUE(made.has_value()) << made.error().text;
    socket = std::move(*made);
  }
  std::string on_document() {
    asked_count++;
    return document;
  }
  // Until the other side closes.
  std::string read_all(int fd) {
    std::string text;
    bool is_end = false;
    EXPECT_TRUE(run_until([&] {
      char buffer[65536];
      const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
      if (n > 0) text.append(buffer, static_cast<std::size_t>(n));
      is_end = n == 0 || (n < 0 && errno != EAGAIN);
      return is_end;
    }));
    ::close(fd);
    return text;
  }

  std::string document = "{}\n";
  uint64_t timeout_us = 60'000'000;
  std::size_t asked_count = 0;
  std::unique_ptr<DocumentSocket> socket;
};

TEST_F(DocumentSocketTest, EveryConnectionGetsTheDocumentAsItIsThen) {
  open();
  EXPECT_EQ(socket->path(), path);
  EXPECT_EQ(read_all(connect_to(path)), "{}\n");
  document = "{\"n\":2}\n";
  EXPECT_EQ(read_all(connect_to(path)), "{\"n\":2}\n");
  EXPECT_EQ(asked_count, 2u);
  EXPECT_EQ(socket->connections_count(), 0u);
}

TEST_F(DocumentSocketTest, ALongDocumentArrivesWhole) {
  open();
  document.assign(3'000'000, 'x');
  EXPECT_EQ(read_all(connect_to(path)), document);
  EXPECT_TRUE(run_until([&] { return socket->connections_count() == 0; }));
}

TEST_F(DocumentSocketTest, BeyondTheLimitNobodyGetsAnAnswer) {
  open();
  document.assign(3'000'000, 'x');  // does not fit into the kernel: the connection stays
  std::vector<int> silent;
  for (std::size_t n = 0; n < DocumentSocket::kConnectionsMax; n++) silent.push_back(connect_to(path));
  ASSERT_TRUE(run_until([&] { return socket->connections_count() == DocumentSocket::kConnectionsMax; }));
  EXPECT_EQ(read_all(connect_to(path)), "");
  for (const int fd : silent) ::close(fd);
  ASSERT_TRUE(run_until([&] { return socket->connections_count() == 0; }));
  document = "again";
  EXPECT_EQ(read_all(connect_to(path)), "again");
}

TEST_F(DocumentSocketTest, WhoDoesNotReadIsClosedAfterItsTime) {
  timeout_us = 50'000;
  open();
  document.assign(3'000'000, 'x');
  const int silent = connect_to(path);
  ASSERT_TRUE(run_until([&] { return socket->connections_count() == 1; }));
  EXPECT_TRUE(run_until([&] { return socket->connections_count() == 0; }));
  ::close(silent);
}

TEST_F(DocumentSocketTest, ItsEndRemovesTheFileAndClosesWhoWaits) {
  open();
  document.assign(3'000'000, 'x');
  const int waiting = connect_to(path);
  ASSERT_TRUE(run_until([&] { return socket->connections_count() == 1; }));
  socket.reset();
  EXPECT_FALSE(exists());
  EXPECT_LT(read_all(waiting).size(), document.size());
}

TEST_F(DocumentSocketTest, APathInUseIsAnError) {
  open();
  const auto second = try_open();
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, TMESH_E_REFUSED);
  EXPECT_TRUE(exists());
}

TEST_F(DocumentSocketTest, AnotherUserGetsNoAnswer) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  open();
  std::filesystem::permissions(folder, std::filesystem::perms::all);
  ASSERT_EQ(::chmod(path.c_str(), 0666), 0);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char outcome = 'e';
    if (::setuid(65534) == 0) {
      const int fd = connect_to(path);
      char byte = 0;
      ::fcntl(fd, F_SETFL, 0);
      outcome = ::recv(fd, &byte, 1, 0) > 0 ? 'd' : 'n';
    }
    (void)!::write(ends[1], &outcome, 1);
    ::_exit(0);
  }
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  char outcome = 0;
  ASSERT_TRUE(run_until([&] { return ::read(ends[0], &outcome, 1) == 1; }));
  EXPECT_EQ(outcome, 'n');
  EXPECT_EQ(asked_count, 0u);
  ::close(ends[0]);
  ::close(ends[1]);
  (void)!::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace tmesh::net
