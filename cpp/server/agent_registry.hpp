// The agents that are connected to this server, and which link a new stream takes.
//
// Links register after a good hello and leave when they go down. One registration per
// (agent id, connection id): a newer epoch replaces the older link, an equal or older
// one is refused (fencing). At most max_links_per_agent per agent. Selection: of the links
// that take opens, have what the open needs (requirement E7) and are not suspected to be
// dead the one with the lowest (streams + 1) / health, streams being counted from their
// OPEN_STREAM on (requirement E6); tie: the lower round-trip time, then the one heard of
// last. A suspected one is taken only if there is no other. Streams that run never move. A new link is often
// the successor of one that died without a word, so the others are probed when it registers. Agent ids
// compare byte by byte. Holds pointers, owns nothing. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

struct tmesh_mux;

namespace tmesh::server {

// What the registry needs to know of a link.
class RegisteredLink {
 public:
  virtual bool takes_opens() const = 0;
  virtual std::size_t streams_count() const = 0;
  virtual uint64_t last_heard_us() const = 0;
  // Of the heartbeat; 0 = not known.
  virtual uint64_t rtt_us() const { return 0; }
  // Hundredths, 1 to 100 (link_health.hpp), and what it is made of.
  virtual uint32_t health_percent() const { return 100; }
  virtual void note_open(bool) {}
  // Silent where a living peer would have been heard: an open here would run out of time.
  virtual bool is_suspect() const { return false; }
  // Both in one number, for rows and people: 0 when it is suspect.
  int64_t health_score() const { return is_suspect() ? 0 : health_percent(); }
  // Provokes an answer.
  virtual void probe() {}
  // What both ends named (enum tmesh_capability).
  virtual uint32_t capabilities() const = 0;
  // Where streams to the agent are opened; only of a link that takes opens.
  virtual tmesh_mux* mux() = 0;
  // A newer link of the same connection id took its place.
  virtual void on_replaced() = 0;

  std::string agent_id;
  std::string connection_id;
  int64_t epoch = 0;
  uint64_t link_number = 0;  // given by add(); never used again

 protected:
  ~RegisteredLink() = default;
};

class AgentRegistry {
 public:
  enum class Registration { registered, stale_epoch, too_many };

  explicit AgentRegistry(std::size_t max_links_per_agent) : max_links_per_agent_(max_links_per_agent) {}

  // agent_id, connection_id and epoch of the link are set and stay until remove().
  Registration add(RegisteredLink& link);
  // Harmless if it is not registered.
  void remove(RegisteredLink& link);

  // needed: capabilities the link must have. Null when no link of the agent takes such
  // opens.
  RegisteredLink* select(std::string_view agent_id, uint32_t needed) const;
  // How an open on the link with that number ended. Harmless when the link is gone.
  enum class OpenEnd {
    answered,
    full,    // by a queue of the agent
    broken,  // reset instead of answered
    silent,  // out of time
  };
  void note_open(uint64_t link_number, uint64_t opened_us, OpenEnd end);
  std::size_t links_count(std::string_view agent_id) const;
  std::size_t max_links_per_agent() const { return max_links_per_agent_; }

 private:
  const std::size_t max_links_per_agent_;
  std::map<std::string, std::vector<RegisteredLink*>, std::less<>> agents_;
  std::unordered_map<uint64_t, RegisteredLink*> by_number_;
  uint64_t last_number_ = 0;
};

}  // namespace tmesh::server
