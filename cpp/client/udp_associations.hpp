// The associations of one udp entry: one per local source address, so that answers find back.
//
// At most kMax. An association without a datagram for the idle timeout is closed; a newcomer
// beyond kMax takes the place of the one that was silent for longest. In a flood of sources
// every newcomer is an open, so kMax of them may do so at once and then one per kEvict_us; the
// datagrams of others are dropped (R13). Who talks once in a while keeps his association.
//
// An association is closed with HALF_CLOSE, as deployed clients do: servers take a RESET
// without an answer for a cancelled open. Its stream lives for at most kLinger_us after that.
//
// Knows no socket: datagrams come in through on_datagram() and leave through Reply. One thread;
// time comes from Timers. The opener, the validator and the settings outlive it.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>

#include "cpp/client/entry.hpp"
#include "cpp/client/opening.hpp"
#include "cpp/client/udp_association.hpp"
#include "cpp/net/udp.hpp"

namespace tmesh::client {

struct UdpAssociationsParts {
  // To the local side. OK: it is gone. AGAIN: not taken, pump() follows. Otherwise it is lost.
  using Reply = Delegate<tmesh_status(const net::UdpAddress& to, std::span<const uint8_t> data)>;

  Timers& timers;
  StreamOpener& opener;
  OpenValidator* validator;
  OpeningSettings& opening;
  EntryStats& stats;
  std::string target_host;
  uint16_t target_port = 0;
  uint64_t idle_timeout_us = 60'000'000;
  Reply reply;
};

struct UdpCounts {
  uint64_t expired_count = 0;  // associations closed for silence
  uint64_t evicted_count = 0;  // closed for a newcomer
  uint64_t dropped_count = 0;  // datagrams, either way: no room, no stream, not taken by the kernel
};

class UdpAssociations {
 public:
  static constexpr std::size_t kMax = 1'024;
  static constexpr uint64_t kEvict_us = 1'000;
  // A round trip with retransmissions; what is not answered by then is reset.
  static constexpr uint64_t kLinger_us = 10'000'000;
  // Waiting for their streams, of all associations: links are away for seconds.
  static constexpr std::size_t kKeptMaxBytes = 4u << 20;

  explicit UdpAssociations(UdpAssociationsParts parts);
  ~UdpAssociations();
  UdpAssociations(const UdpAssociations&) = delete;
  UdpAssociations& operator=(const UdpAssociations&) = delete;

  void on_datagram(const net::UdpAddress& source, std::span<const uint8_t> data);
  // The local socket takes datagrams again.
  void pump();
  // Closes all; their streams may linger.
  void finish();

  std::size_t count() const { return by_source_.size(); }
  std::size_t lingering_count() const { return lingering_.size(); }
  const UdpCounts& counts() const { return counts_; }

 private:
  friend class UdpAssociation;
  // A stream that ends regularly without an association.
  struct Lingering {
    UdpAssociations* table = nullptr;
    tmesh_stream* stream = nullptr;
    uint64_t until_us = 0;
    std::list<Lingering>::iterator place;
  };

  UdpAssociation* make(const net::UdpAddress& source);
  void touch(UdpAssociation& association);
  void close(UdpAssociation& association);
  void linger(tmesh_stream* stream);
  void drop_lingering(Lingering& one);
  static void on_lingering_event(void* user, tmesh_stream* stream, unsigned events);
  void arm();
  void on_time();

  UdpAssociationsParts parts_;
  std::list<std::unique_ptr<UdpAssociation>> in_order_;  // silent for longest first
  std::unordered_map<net::UdpAddress, UdpAssociation*, net::UdpAddressHash> by_source_;
  std::list<Lingering> lingering_;  // oldest first; at most kMax
  std::size_t kept_bytes_ = 0;      // of all associations
  Ticket timer_;
  uint64_t timer_due_us_ = 0;  // while it runs
  UdpCounts counts_;
  uint64_t evictions_us_ = 0;  // when those of the past are paid for, kEvict_us each
  bool is_full_ = false;       // said so in the log
};

}  // namespace tmesh::client
