#include "cpp/server/admin_api/password_pool.hpp"

#include <utility>

#include "cpp/server/password.hpp"

namespace tmesh::server {

const char* decoy_password_hash() {
  return "$argon2id$v=19$m=19456,t=2,p=1$YxS+t2qrS6djSypdJXjiZA$ifCrlyq3vigwZW8CH2yl/oI4TwBxCT4QR+4I1mOT76M";
}

Result<std::unique_ptr<PasswordPool>> PasswordPool::create(net::Loop& loop) {
  auto workers = net::Workers::create(loop, 1, kWaitingMax);
  if (!workers) return std::unexpected(workers.error());
  return std::unique_ptr<PasswordPool>(new PasswordPool(std::move(*workers)));
}

Result<Ticket> PasswordPool::verify(std::string hash, Secret password, Delegate<void(Result<void>)> done) {
  ++asked_count_;
  return workers_->submit(
      [hash = std::move(hash), password = std::move(password)]() -> Result<void> {
        if (!hash.empty()) return verify_password(hash, password.reveal());
        const Result<void> decoy = verify_password(decoy_password_hash(), password.reveal());
        if (!decoy && decoy.error().code == TMESH_E_NO_MEMORY) return decoy;
        return fail(TMESH_E_POLICY, "no such user");
      },
      done);
}

Result<Ticket> PasswordPool::make(Delegate<void(Result<PreparedPassword>)> done) {
  ++asked_count_;
  return workers_->submit(
      []() -> Result<PreparedPassword> {
        PreparedPassword made;
        made.password = new_password();
        auto hash = hash_password(made.password.reveal());
        if (!hash) return std::unexpected(hash.error());
        made.hash = std::move(*hash);
        return made;
      },
      done);
}

Result<Ticket> PasswordPool::change(std::string hash, Secret current, Secret wanted,
                                    Delegate<void(Result<PreparedPassword>)> done) {
  ++asked_count_;
  return workers_->submit(
      [hash = std::move(hash), current = std::move(current),
       wanted = std::move(wanted)]() -> Result<PreparedPassword> {
        // First what needs no password to be known.
        if (Result<void> good = check_password(wanted.reveal()); !good) return std::unexpected(good.error());
        if (Result<void> right = verify_password(hash, current.reveal()); !right) {
          return std::unexpected(right.error());
        }
        auto made = hash_password(wanted.reveal());
        if (!made) return std::unexpected(made.error());
        return PreparedPassword{.password = {}, .hash = std::move(*made), .verified_hash = hash};
      },
      done);
}

}  // namespace tmesh::server
