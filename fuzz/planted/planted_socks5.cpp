// The SOCKS5 target with a planted bug: a caller of the handshake that loses a zero byte
// which arrives alone. The fuzzer must find it within seconds (see run.sh).
#include "cpp/client/socks5.hpp"

namespace tmesh::client {

class PlantedHandshake : public Socks5Handshake {
 public:
  using Socks5Handshake::Socks5Handshake;

  std::size_t feed(std::span<const uint8_t> data) {
    if (data.size() == 1 && data[0] == 0) return 1;
    return Socks5Handshake::feed(data);
  }
};

}  // namespace tmesh::client

#define Socks5Handshake PlantedHandshake
#include "fuzz/fuzz_socks5.cpp"
