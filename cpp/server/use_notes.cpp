#include "cpp/server/use_notes.hpp"

#include <utility>
#include <vector>

#include "cpp/server/credential_service.hpp"

namespace tmesh::server {

void UseNotes::note(const std::string& token_id) {
  if (waiting_.size() >= kWaitingMax && !waiting_.contains(token_id)) {
    dropped_++;
    return;
  }
  waiting_.insert(token_id);
  write_next();
}

void UseNotes::write_next() {
  if (write_.active() || waiting_.empty()) return;
  std::vector<std::string> ids(waiting_.begin(), waiting_.end());
  waiting_.clear();
  in_write_ = ids.size();
  auto write = writes_.submit(
      [ids = std::move(ids)](storage::Db& db) {
        return CredentialService(db, storage::system_clock()).note_uses(ids);
      },
      Delegate<void(Result<void>)>::bind<&UseNotes::on_written>(this));
  if (!write) {
    dropped_ += in_write_;
    return;
  }
  write_ = std::move(*write);
}

void UseNotes::on_written(Result<void> done) {
  write_.release();
  if (!done) dropped_ += in_write_;
  write_next();
}

}  // namespace tmesh::server
