// The datagrams of one local source address and their stream (WIRE 1.14).
//
// The first datagram opens the stream; until it is there some wait, the newest is dropped. When
// the open is refused or the stream is lost the association stays and rests: datagrams are
// dropped, and the first one after the rest opens again. The rest grows while nothing comes
// back from the target and is short again once something did.
//
// Owns its opening and its stream. The table (udp_associations.hpp) owns it.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "core/mux/stream.h"
#include "cpp/client/opening.hpp"
#include "cpp/net/udp.hpp"

namespace tmesh::client {

class UdpAssociations;

class UdpAssociation {
 public:
  // What waits for the stream: one largest datagram, or a burst of small ones. A stream is
  // there at once unless a link or auth_url is waited for.
  static constexpr std::size_t kPendingMaxBytes = 65'536;
  static constexpr std::size_t kPendingMaxCount = 64;
  static constexpr uint64_t kRestFirst_us = 250'000;
  static constexpr uint64_t kRestMax_us = 4'000'000;
  // Datagrams for the local side in one turn of the loop.
  static constexpr std::size_t kTurnMax = 256;

  UdpAssociation(UdpAssociations& table, const net::UdpAddress& source);
  ~UdpAssociation();
  UdpAssociation(const UdpAssociation&) = delete;
  UdpAssociation& operator=(const UdpAssociation&) = delete;

  const net::UdpAddress& source() const { return source_; }
  // From the local side.
  void send(std::span<const uint8_t> data);
  // Hands on what waits for the local side, as far as its socket takes it.
  void pump();
  // Gives the stream away, for a regular end; null when there is none.
  tmesh_stream* take_stream();

  std::list<std::unique_ptr<UdpAssociation>>::iterator place;  // in the table's list
  uint64_t moved_us = 0;                                       // of the last datagram either way

 private:
  void open();
  void on_opened(const tmesh_open_result& result);
  bool keep(std::span<const uint8_t> data);
  void send_kept();
  void drop_kept();
  bool reply(std::span<const uint8_t> data);
  void rest();
  static void on_stream_event(void* user, tmesh_stream* stream, unsigned events);
  void on_stream_over();

  UdpAssociations& table_;
  const net::UdpAddress source_;
  std::unique_ptr<Opening> opening_;
  tmesh_stream* stream_ = nullptr;
  std::vector<uint8_t> kept_;  // datagrams that wait for the stream, one behind the other
  std::vector<uint32_t> kept_lengths_;
  uint64_t rests_until_us_ = 0;
  uint64_t rest_us_ = 0;  // how long the last one was; 0 = none since something came back
  Ticket turn_;
};

}  // namespace tmesh::client
