// A SOCKS5 entry between real browsers' sockets and a real link whose far end is the test's.
#pragma once

#include "cpp/client/socks5_entry.hpp"
#include "tests/cpp/client/entry_fixture.hpp"

namespace tmesh::client {

inline const std::string kGreeting = bytes({5, 1, 0});
inline const std::string kChosen = bytes({5, 0});
inline const std::string kRequest = bytes({5, 1, 0, 3, 6}) + "target" + bytes({0x1F, 0x90});
inline std::string reply(int code) {
  return bytes({5, code, 0, 1, 0, 0, 0, 0, 0, 0});
}

class Socks5EntryTest : public EntryTest {
 protected:
  Socks5EntryTest() { tunnel.protocol = config::Tunnel::Protocol::socks5; }
  // A browser that sent its request; the stream has arrived at the server.
  RawClient connect(std::string_view behind = {}) {
    return connect_with(kGreeting + kRequest + std::string(behind));
  }
};

}  // namespace tmesh::client
