// When tokens were last used, on its way to the database (STORAGE 4.4): best effort, and
// nobody waits for it.
//
// A fleet that comes back at once wants as many notes as it has tokens, so what waits is
// written together, and a token waits once however many links it brings. At most
// kWaitingMax tokens wait; the notes of others are dropped and counted, and their next use
// after CredentialService::use_note_interval_us is noted again. Loop thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "cpp/base/result.hpp"
#include "cpp/base/ticket.hpp"
#include "cpp/server/database_lane.hpp"

namespace tmesh::server {

class UseNotes {
 public:
  static constexpr std::size_t kWaitingMax = 128;

  // The lane outlives this.
  explicit UseNotes(DatabaseLane& writes) : writes_(writes) {}

  void note(const std::string& token_id);

  std::size_t waiting_count() const { return waiting_.size(); }
  uint64_t dropped_count() const { return dropped_; }

 private:
  void write_next();
  void on_written(Result<void> done);

  DatabaseLane& writes_;
  std::set<std::string> waiting_;
  Ticket write_;
  uint64_t in_write_ = 0;
  uint64_t dropped_ = 0;
};

}  // namespace tmesh::server
