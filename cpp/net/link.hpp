// One WebSocket as a carrier of frames, as a C++ owner of a tmesh_link.
//
// Move-only. Destroying it closes the link (one more batch, so that a GOAWAY just queued
// goes, and a WebSocket close); from then on no callback reaches the handler. Streams of
// the link's mux still get their OVER event from the loop and must be released there, or
// the memory stays. After on_down the Link only waits to be destroyed, which may happen
// inside on_down; destroying it in another callback is fine too.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "core/mux/mux.h"
#include "cpp/base/result.hpp"
#include "cpp/net/loop.hpp"
#include "cpp/net/transport.hpp"

struct tmesh_link;

namespace tmesh::net {

// See struct tmesh_link_events and struct tmesh_mux_events for what each may do.
class LinkHandler {
 public:
  // The link is over; streams have their OVER events. Called once.
  virtual void on_down(tmesh_status why) = 0;
  // Acceptor: a valid OPEN_STREAM; attach before returning. Never called for openers.
  virtual void on_open(tmesh_stream* stream, const tmesh_open_stream& open) = 0;
  // Hello, metadata, acknowledgement and trace frames. A SESSION status ends the link.
  virtual tmesh_status on_control(const tmesh_frame_header& header, std::span<const uint8_t> payload) = 0;
  virtual void on_pong(std::span<const uint8_t> payload) = 0;
  virtual void on_goaway() = 0;

 protected:
  ~LinkHandler() = default;
};

class Link {
 public:
  Link() = default;
  Link(Link&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  Link& operator=(Link&& other) noexcept;
  ~Link() { close(); }

  // Right after the 101 was sent (server) or read (client). early: bytes behind the
  // HTTP head; they are copied, and processed in the next flush, not inside.
  // config.events, events_ctx and a null pool are filled in. The transport is gone,
  // also on failure (NO_MEMORY).
  static Result<Link> open(Loop& loop, Transport transport, bool is_client, const tmesh_mux_config& config,
                           LinkHandler& handler, std::span<const uint8_t> early);

  explicit operator bool() const { return node_ != nullptr; }
  tmesh_mux* mux();
  // A WebSocket ping, which deployed peers answer.
  void ws_ping();
  uint64_t last_read_us() const;
  uint64_t bytes_in() const;   // on the wire
  uint64_t bytes_out() const;  // on the wire
  const tmesh_tls* tls() const;
  // Something was queued in the mux: dispatch and send in this iteration.
  void kick();
  // Ends the link with this status; on_down follows from the loop.
  void fail(tmesh_status why);
  // Empties the owner; no on_down.
  void close();

 private:
  struct Node;
  friend struct LinkGlue;
  explicit Link(Node* node) : node_(node) {}
  Node* node_ = nullptr;
};

}  // namespace tmesh::net
