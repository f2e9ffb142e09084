// Presence over the database's lane of writes. Loop thread; borrows the database.
#pragma once

#include <utility>

#include "cpp/server/agent_presence.hpp"
#include "cpp/server/database.hpp"

namespace tmesh::server {

class DatabasePresence final : public PresenceWriter {
 public:
  explicit DatabasePresence(Database& database) : database_(database) {}
  Result<Ticket> write_presence(PresenceBatch batch, Delegate<void(PresenceOutcome)> done) override {
    return database_.write(
        [batch = std::move(batch)](storage::Db& db) {
          return server::write_presence(db, batch, storage::system_clock()());
        },
        done);
  }

 private:
  Database& database_;
};

}  // namespace tmesh::server
