// Argon2 on a thread of its own: tens of milliseconds and 19 MiB each, which neither the
// loop nor the database may wait for. One thread: a flood of logins costs one core.
//
// Passwords are moved in and wiped with the call. Every call returns a Ticket; LIMIT as an
// error of the call itself: kWaitingMax wait. Loop thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "cpp/base/delegate.hpp"
#include "cpp/base/redact.hpp"
#include "cpp/base/result.hpp"
#include "cpp/base/ticket.hpp"
#include "cpp/net/workers.hpp"
#include "cpp/server/admin_api/api.hpp"

namespace tmesh::server {

class PasswordPool {
 public:
  // The last of them waits one or two seconds.
  static constexpr std::size_t kWaitingMax = 32;

  // IO if the thread cannot be made.
  static Result<std::unique_ptr<PasswordPool>> create(net::Loop& loop);

  // verify_password of password.hpp, and its errors. An empty hash is compared with a decoy of
  // the same cost: POLICY, as late as for a wrong password.
  Result<Ticket> verify(std::string hash, Secret password, Delegate<void(Result<void>)> done);

  // A new random password and its hash. NO_MEMORY.
  Result<Ticket> make(Delegate<void(Result<PreparedPassword>)> done);

  // Verifies `current` against `hash` and hashes `wanted`. POLICY: `current` is wrong. INVALID:
  // `wanted` is nothing people may choose (check_password). Others as verify.
  Result<Ticket> change(std::string hash, Secret current, Secret wanted,
                        Delegate<void(Result<PreparedPassword>)> done);

  // Hashes and verifications asked for.
  std::size_t asked_count() const { return asked_count_; }

 private:
  explicit PasswordPool(std::unique_ptr<net::Workers> workers) : workers_(std::move(workers)) {}
  std::unique_ptr<net::Workers> workers_;
  std::size_t asked_count_ = 0;
};

// The hash of a password that nobody knows, as expensive as new hashes are.
const char* decoy_password_hash();

}  // namespace tmesh::server
