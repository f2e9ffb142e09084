// One open, from what an entry was asked for to a connected stream (requirement B10).
//
// In this order: the entry's auth_url is asked, if it has one; a link is chosen, or waited
// for while one is on its way; a strict open waits for OPEN_RESULT, an agent that cannot
// answer is tried once more without STRICT_OPEN (B4); a silent link of a pool is hedged with
// another one, and an open whose link went before any answer is repeated on another one, once,
// both unless early bytes have gone. Early bytes are kept until the answer came and go
// ahead of it where both ends know how (WIRE E). Each step has a limit of its own.
//
// Owns the stream until take(). Destroying it cancels whatever is under way and resets the
// stream. About 200 bytes: entries hold it through a pointer and drop it once the stream
// flows. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/proto/open_result.h"
#include "cpp/base/timers.hpp"
#include "cpp/client/open_validator.hpp"
#include "cpp/client/stream_opener.hpp"

namespace tmesh::client {

struct OpeningSettings {
  std::string entry;  // for the log
  std::string agent_id;
  std::string_view protocol_name;  // of the entry, static, for auth_url
  std::string auth_url;            // empty = nobody is asked
  uint64_t open_timeout_us = 8'000'000;
  uint64_t link_wait_us = 2'000'000;  // see EntryDeps
  bool is_legacy_logged = false;      // said once that opens had to be repeated as legacy
};

// What the local user showed; borrowed for the call.
struct ShownLogin {
  std::string_view username;
  std::string_view password;
};

class Opening {
 public:
  // accepted: take() the stream, now or later. Otherwise stage and code say why; "no link" is
  // selection, agent_offline. Called once, as the last thing; the owner may destroy the
  // Opening from inside.
  using Done = Delegate<void(const tmesh_open_result& result)>;

  // Borrowed; validator may be null when auth_url is empty.
  Opening(StreamOpener& opener, OpenValidator* validator, Timers& timers, OpeningSettings& settings,
          Done done);
  ~Opening();
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;

  // Once. request.agent_id is ignored: the settings name the agent. Copies what it needs.
  // May call `done` before it returns (a refusal, or a legacy link).
  void start(const OpenRequest& request, const ShownLogin& login = {});

  // Bytes of the local side that came before the answer: takes up to early_room() of them,
  // returns how many. They reach the target ahead of everything that follows, whether they
  // left early or not. Only for entries whose local side is not told of success first.
  std::size_t send_early(std::span<const uint8_t> data);
  std::size_t early_room() const;

  // After an accepted result. Early bytes are in its `out` or on their way; what came behind
  // the answer is in its `in`. The caller attaches, which brings the events since then, and
  // releases it.
  tmesh_stream* take();

 private:
  enum class Phase : uint8_t { idle, validating, waiting, opening, done };

  void open();
  void begin(const OpenedStream& opened);
  bool repeat();
  bool wait_for_link();
  void on_validated(bool is_allowed);
  void on_link();
  void on_link_timeout();
  void on_timeout();
  void on_silence();
  void on_over(tmesh_stream* stream);
  void on_result(tmesh_stream* stream, const tmesh_open_result& result);
  void succeed();
  void refuse(tmesh_open_stage stage, tmesh_open_code code, bool is_retryable);
  void refuse(const tmesh_open_result& result);
  // False: no memory for them.
  bool write_early();
  void drop(tmesh_stream*& stream);
  void attach(tmesh_stream* stream);
  // One of the two that race is out of it; the other one is stream_ now.
  void leave_race(tmesh_stream* loser);
  OpenRequest request() const;
  static void on_stream_event(void* user, tmesh_stream* stream, unsigned events);

  StreamOpener& opener_;
  OpenValidator* const validator_;
  Timers& timers_;
  OpeningSettings& settings_;
  const Done done_;
  Phase phase_ = Phase::idle;
  bool allows_strict_ = true;  // false: the one legacy retry
  bool was_waiting_ = false;   // for a link, once
  bool was_repeated_ = false;  // because its link went, once
  bool is_hedged_ = false;     // a second link was tried
  bool is_on_second_ = false;  // stream_ is the one of the second link
  tmesh_open_protocol protocol_ = TMESH_OPEN_TCP;
  bool is_target_https_ = false;
  uint16_t port_ = 0;
  std::string host_;
  std::string host_header_;
  std::string tls_server_name_;
  std::vector<uint8_t> early_;
  std::size_t early_written_bytes_ = 0;  // of those, on stream_
  Ticket step_;                          // validation, or a link that is on its way
  Ticket timeout_;
  Ticket silence_;
  tmesh_stream* stream_ = nullptr;
  tmesh_stream* hedge_ = nullptr;  // the same target on another link; null when there is no race
};

}  // namespace tmesh::client
