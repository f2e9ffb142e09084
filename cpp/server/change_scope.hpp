// What the services that change rights and rows share: the transaction, who does it and
// when, and the audit entry that goes with each change.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cpp/base/result.hpp"
#include "cpp/storage/db.hpp"

namespace tmesh::server {

// Lives inside one transaction; commits nothing.
class ChangeScope {
 public:
  // `actor_user_id` empty: the command line.
  ChangeScope(storage::Transaction& tx, int64_t now_us, std::string actor_user_id);

  storage::Transaction& tx() const { return tx_; }
  storage::Db& db() const { return tx_.db(); }
  int64_t now_us() const { return now_us_; }
  const std::string& now() const { return now_; }  // as a timestamp text
  const std::string& actor_user_id() const { return actor_user_id_; }

  // `details`: a JSON object; never a secret. Errors as db.hpp.
  Result<void> audit(std::string_view action, std::string_view resource_type, std::string_view resource_id,
                     std::string_view details = "{}") const;

 private:
  storage::Transaction& tx_;
  const int64_t now_us_;
  const std::string now_;
  const std::string actor_user_id_;
};

}  // namespace tmesh::server
