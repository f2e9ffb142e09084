#include "cpp/client/socks5.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tmesh::client {
namespace {

using State = Socks5Handshake::State;

std::string bytes(std::initializer_list<int> list) {
  std::string out;
  for (const int b : list) out.push_back(static_cast<char>(b));
  return out;
}

struct Outcome {
  State state;
  std::string replies;
  std::string host;
  uint16_t port;
  std::size_t used;

  bool operator==(const Outcome&) const = default;
};

// Feeds `input` in the given pieces, as an owner would: replies are taken when they come.
Outcome run(const Socks5Login* login, std::string_view input, const std::vector<std::size_t>& pieces) {
  Socks5Handshake h(login);
  Outcome out{};
  std::size_t arrived = 0;
  std::size_t piece = 0;
  const auto take = [&] {
    out.replies.append(h.reply().begin(), h.reply().end());
    const bool was_reply = !h.reply().empty();
    h.reply_sent();
    return was_reply;
  };
  while (arrived < input.size()) {
    arrived = std::min(input.size(), arrived + (piece < pieces.size() ? pieces[piece] : input.size()));
    piece++;
    for (;;) {
      const std::size_t n =
          h.feed({reinterpret_cast<const uint8_t*>(input.data()) + out.used, arrived - out.used});
      EXPECT_LE(n, arrived - out.used);
      out.used += n;
      if (!take()) break;
    }
    if (h.state() != State::ready && h.state() != State::failed) {
      EXPECT_EQ(out.used, arrived) << "bytes of an unfinished handshake are taken";
    }
  }
  out.state = h.state();
  out.host = h.host();
  out.port = h.port();
  return out;
}

Outcome run(const Socks5Login* login, std::string_view input) {
  return run(login, input, {});
}

std::string greeting(std::initializer_list<int> methods = {0}) {
  return bytes({5, static_cast<int>(methods.size())}) + bytes(methods);
}
std::string login_message(std::string_view name, std::string_view password) {
  return bytes({1, static_cast<int>(name.size())}) + std::string(name) +
         bytes({static_cast<int>(password.size())}) + std::string(password);
}
std::string request_v4(int command = 1) {
  return bytes({5, command, 0, 1, 192, 0, 2, 7, 0x1F, 0x90});
}
std::string request_name(std::string_view name, int command = 1) {
  return bytes({5, command, 0, 3, static_cast<int>(name.size())}) + std::string(name) + bytes({0, 80});
}
const std::string kChosen = bytes({5, 0});
std::string final_reply(int code) {
  return bytes({5, code, 0, 1, 0, 0, 0, 0, 0, 0});
}

TEST(Socks5, ConnectToAnIpv4Address) {
  const Outcome out = run(nullptr, greeting() + request_v4());
  EXPECT_EQ(out.state, State::ready);
  EXPECT_EQ(out.replies, kChosen);
  EXPECT_EQ(out.host, "192.0.2.7");
  EXPECT_EQ(out.port, 8080);
}

TEST(Socks5, ConnectToAnIpv6Address) {
  const std::string request =
      bytes({5, 1, 0, 4, 0x20, 1, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0xBB});
  const Outcome out = run(nullptr, greeting() + request);
  EXPECT_EQ(out.state, State::ready);
  EXPECT_EQ(out.host, "2001:db8::1");
  EXPECT_EQ(out.port, 443);
}

TEST(Socks5, AMappedIpv4AddressIsTheIpv4Address) {
  // LESSONS P-G5: it must not slip past a rule written for IPv4.
  const std::string request =
      bytes({5, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 0, 0, 1, 0, 22});
  EXPECT_EQ(run(nullptr, greeting() + request).host, "10.0.0.1");
  EXPECT_EQ(run(nullptr, greeting() + request_name("::ffff:10.0.0.1")).host, "10.0.0.1");
}

TEST(Socks5, NamesArePassedOnAsTheyAre) {
  for (const char* name :
       {"a", "Example.COM", "_sip._tcp.example.com", "example.com.", "xn--bcher-kva.example", "192.0.2.9"}) {
    const Outcome out = run(nullptr, greeting() + request_name(name));
    EXPECT_EQ(out.state, State::ready) << name;
    EXPECT_EQ(out.host, name);
    EXPECT_EQ(out.port, 80);
  }
}

TEST(Socks5, AnIpv6LiteralAsANameIsThatAddress) {
  for (const char* name : {"::1", "0:0:0:0:0:0:0:1", "0000::0001"}) {
    const Outcome out = run(nullptr, greeting() + request_name(name));
    EXPECT_EQ(out.state, State::ready) << name;
    EXPECT_EQ(out.host, "::1");
  }
}

TEST(Socks5, NamesThatAreNoneAreAGeneralFailure) {
  const std::string bad[] = {"",
                             std::string("a\0b", 3),
                             "a b",
                             " a",
                             "a\r\nb",
                             "a\tb",
                             "a/b",
                             "user@host",
                             "host:80",
                             "[::1]",
                             "fe80::1%eth0",
                             "b\xC3\xBC"
                             "cher",
                             "a\x7F",
                             "\"",
                             std::string(254, 'a'),
                             std::string(255, 'a')};
  for (const std::string& name : bad) {
    const Outcome out = run(nullptr, greeting() + request_name(name));
    EXPECT_EQ(out.state, State::failed) << name;
    EXPECT_EQ(out.replies, kChosen + final_reply(1)) << name;
    EXPECT_EQ(out.used, greeting().size() + request_name(name).size()) << "the whole request was read";
  }
  EXPECT_EQ(run(nullptr, greeting() + request_name(std::string(253, 'a'))).state, State::ready);
}

TEST(Socks5, PortZeroIsAGeneralFailure) {
  for (const std::string& request :
       {bytes({5, 1, 0, 1, 192, 0, 2, 7, 0, 0}), bytes({5, 1, 0, 3, 1, 'a', 0, 0})}) {
    const Outcome out = run(nullptr, greeting() + request);
    EXPECT_EQ(out.state, State::failed);
    EXPECT_EQ(out.replies, kChosen + final_reply(1));
  }
}

// Requirement A4, LESSONS P-I3.
TEST(Socks5, BindAndUdpAssociateAreRefusedWith7) {
  for (const int command : {0, 2, 3, 4, 255}) {
    EXPECT_EQ(run(nullptr, greeting() + request_v4(command)).replies, kChosen + final_reply(7)) << command;
    EXPECT_EQ(run(nullptr, greeting() + request_name("a", command)).replies, kChosen + final_reply(7))
        << command;
  }
}

TEST(Socks5, AnUnknownAddressTypeIsRefusedWith8) {
  for (const int type : {0, 2, 5, 255}) {
    const Outcome out = run(nullptr, greeting() + bytes({5, 1, 0, type}));
    EXPECT_EQ(out.state, State::failed) << type;
    EXPECT_EQ(out.replies, kChosen + final_reply(8)) << "not silence";
  }
}

TEST(Socks5, TheReservedByteIsNotJudged) {
  EXPECT_EQ(run(nullptr, greeting() + bytes({5, 1, 0x7E, 1, 192, 0, 2, 7, 0, 80})).state, State::ready);
}

TEST(Socks5, WithoutALoginOnlyTheMethodNoneIsTaken) {
  for (const auto& offer :
       {greeting({0}), greeting({2, 0}), greeting({0, 0, 1, 255}), greeting({9, 8, 7, 0})}) {
    EXPECT_EQ(run(nullptr, offer).replies, kChosen);
  }
  for (const auto& offer : {greeting({}), greeting({2}), greeting({1, 2, 3}), greeting({255})}) {
    const Outcome out = run(nullptr, offer + request_v4());
    EXPECT_EQ(out.state, State::failed);
    EXPECT_EQ(out.replies, bytes({5, 0xFF}));
    EXPECT_EQ(out.used, offer.size());
  }
}

TEST(Socks5, AGreetingOf255MethodsFits) {
  std::string offer = bytes({5, 255}) + std::string(254, '\x09') + std::string(1, '\0');
  EXPECT_EQ(run(nullptr, offer + request_v4()).state, State::ready);
}

TEST(Socks5, WithALoginNothingElseIsTaken) {
  const Socks5Login login{"u", Secret("p")};
  EXPECT_EQ(run(&login, greeting({0})).replies, bytes({5, 0xFF}));
  EXPECT_EQ(run(&login, greeting({})).replies, bytes({5, 0xFF}));
  EXPECT_EQ(run(&login, greeting({0, 2})).replies, bytes({5, 2}));
  // A request where the login belongs is another version byte: nothing is served.
  const Outcome out = run(&login, greeting({2}) + request_v4());
  EXPECT_EQ(out.state, State::failed);
  EXPECT_EQ(out.replies, bytes({5, 2}));
}

// LESSONS P-I4.
TEST(Socks5, LoginsOfEveryShape) {
  std::string all;
  for (int i = 1; i < 256; i++) all.push_back(static_cast<char>(i));
  struct Row {
    std::string name, password;
  };
  const Row rows[] = {{"user", "password"},
                      {"user:with:colons", "pass:word"},
                      {"b\xC3\xBC"
                       "cher",
                       "\xF0\x9F\x94\x91"},
                      {"user", ""},
                      {std::string(255, 'u'), std::string(255, 'p')},
                      {all, all},
                      {"u", std::string(255, '\xFF')}};
  for (const Row& row : rows) {
    const Socks5Login login{row.name, Secret(row.password)};
    const std::string input = greeting({2}) + login_message(row.name, row.password) + request_v4();
    const Outcome out = run(&login, input);
    EXPECT_EQ(out.state, State::ready);
    EXPECT_EQ(out.replies, bytes({5, 2, 1, 0}));
    EXPECT_EQ(out.host, "192.0.2.7");
  }
}

TEST(Socks5, AWrongLoginIsRefusedAndNothingFollows) {
  const Socks5Login login{"user", Secret("password")};
  const std::string wrong[][2] = {{"user", "passwore"},
                                  {"user", "passwor"},
                                  {"user", "password1"},
                                  {"user", ""},
                                  {"User", "password"},
                                  {"use", "password"},
                                  {"", "password"},
                                  {"", ""},
                                  {"password", "user"},
                                  {"userpassword", ""},
                                  {"user", std::string("password\0", 9)}};
  for (const auto& [name, password] : wrong) {
    const std::string message = login_message(name, password);
    const Outcome out = run(&login, greeting({2}) + message + request_v4());
    EXPECT_EQ(out.state, State::failed) << name << "/" << password;
    EXPECT_EQ(out.replies, bytes({5, 2, 1, 1}));
    EXPECT_EQ(out.used, greeting({2}).size() + message.size());
    EXPECT_EQ(out.host, "");
  }
}

TEST(Socks5, AForeignProtocolIsLeftAtItsFirstByteWithoutAReply) {
  for (const std::string& input :
       {std::string("GET / HTTP/1.1\r\n\r\n"), bytes({4, 1, 0, 80, 1, 2, 3, 4, 0}), bytes({0x16, 3, 1})}) {
    const Outcome out = run(nullptr, input, {1});
    EXPECT_EQ(out.state, State::failed);
    EXPECT_EQ(out.replies, "");
    EXPECT_EQ(out.used, 1u);
  }
  const Outcome out = run(nullptr, greeting() + bytes({4, 1, 0, 1}));
  EXPECT_EQ(out.state, State::failed);
  EXPECT_EQ(out.replies, kChosen);
}

TEST(Socks5, BytesBehindTheRequestAreTheStreams) {
  const std::string handshake = greeting() + request_v4();
  const Outcome out = run(nullptr, handshake + "GET / HTTP/1.1\r\n");
  EXPECT_EQ(out.state, State::ready);
  EXPECT_EQ(out.used, handshake.size());
}

TEST(Socks5, AnUnfinishedHandshakeWaits) {
  const Socks5Login login{"user", Secret("password")};
  const std::string input = greeting({2}) + login_message("user", "password") + request_name("example.com");
  for (std::size_t n = 0; n < input.size(); n++) {
    const Outcome out = run(&login, input.substr(0, n));
    EXPECT_NE(out.state, State::ready) << n;
    EXPECT_NE(out.state, State::failed) << n;
    EXPECT_EQ(out.used, n);
  }
}

// LESSONS P-I1: every fragmentation, byte by byte and all in one.
TEST(Socks5, AnySplitGivesTheSame) {
  const Socks5Login login{"user", Secret("password")};
  const std::string inputs[] = {
      greeting({2}) + login_message("user", "password") + request_name("example.com") + "payload",
      greeting({0, 2}) + login_message("user", "wrong") + request_v4(),
      greeting({2}) + login_message("user", "password") + request_v4(2),
      greeting({2}) + login_message("user", "password") + bytes({5, 1, 0, 9, 1, 2, 3}),
      greeting({2}) + login_message("user", "password") + request_name("::1"),
      greeting({0}),
      "HTTP",
  };
  for (const std::string& input : inputs) {
    const Outcome whole = run(&login, input);
    EXPECT_EQ(run(&login, input, std::vector<std::size_t>(input.size(), 1)), whole);
    for (std::size_t a = 1; a < input.size(); a++) {
      EXPECT_EQ(run(&login, input, {a}), whole);
      for (std::size_t b = 1; a + b < input.size(); b++) EXPECT_EQ(run(&login, input, {a, b}), whole);
    }
  }
}

TEST(Socks5, TheFinalReplyHasNoAddress) {
  for (const Socks5Reply reply : {kReplySucceeded, kReplyTtlExpired}) {
    const auto out = Socks5Handshake::final_reply(reply);
    EXPECT_EQ(std::string(out.begin(), out.end()), final_reply(reply));
  }
}

}  // namespace
}  // namespace tmesh::client
