// Decisions about streams, kept for a while (requirements D1 to D9, decision 0014).
//
// In front of another StreamAuthorizer. What is kept is what was decided, by token id, agent
// id, protocol, normalised host and port, under one generation of the RevisionWatch; never a
// secret. Only definite answers are kept: an allow and a definite no. The same question asked
// by several at a time is decided once, by a decision that belongs to none of them.
//
// No allow that was decided before rights moved is given out afterwards: a decision that was
// begun under an older generation is made again, at most kDecisionsMax times in all, and then
// refused: a no stays one (and is not kept), else TMESH_E_TIMEOUT. While the revision is inconsistent nothing
// is kept or shared; while polls fail, allows are used for a limited time only. Kept decisions of an older
// generation are gone at once, and their memory is given back in slices by a timer.
//
// At most Settings::entries_max decisions in memory, of some 220 bytes each with names of
// usual length (88 of slot, the key, the owner's id), and as many decisions under way as
// callers wait. Loop thread only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "cpp/base/single_flight.hpp"
#include "cpp/base/timers.hpp"
#include "cpp/base/ttl_cache.hpp"
#include "cpp/config/server.hpp"
#include "cpp/server/revision_watch.hpp"
#include "cpp/server/stream_authorizer.hpp"

namespace tmesh::server {

class CachingStreamAuthorizer final : public StreamAuthorizer, private RevisionListener {
 public:
  // Decisions made for one question while rights move all the time. Each takes a trip to the
  // database, so that more would outlast the open's own deadline.
  static constexpr int kDecisionsMax = 8;
  // Kept decisions looked at per slice, and the time between slices: under 50 us of each
  // millisecond, 0.2 s for 100,000.
  static constexpr std::size_t kSliceSlots = 512;
  static constexpr uint64_t kSliceInterval_us = 1000;

  struct Settings {
    bool is_enabled = true;  // false: every question goes to the source
    uint64_t positive_ttl_us = 5'000'000;
    uint64_t negative_ttl_us = 1'000'000;
    // How long after the last good poll allows are used while polls fail (D9).
    uint64_t stale_on_poll_error_max_us = 5'000'000;
    std::size_t entries_max = 100'000;
  };
  // D3: SQLite takes the local time of life and at most 1 s of the negative one.
  static Settings settings(const config::AuthorizationCacheSettings& configured,
                           config::StorageSettings::Driver driver);

  // How a question was answered: from what is kept, by a decision made for it, by one made for
  // another caller, or past the cache.
  enum class Way : uint8_t { hit, miss, shared, bypass };
  enum class Outcome : uint8_t { allow, deny, failed };
  struct Stats {
    std::array<std::array<uint64_t, 3>, 4> answers_count{};  // requirement H1
    uint64_t decided_again_count = 0;                        // rights moved meanwhile
    uint64_t evictions_count = 0;
    std::size_t entries_count = 0;

    uint64_t count(Way way, Outcome outcome) const {
      return answers_count[static_cast<std::size_t>(way)][static_cast<std::size_t>(outcome)];
    }
  };

  // All three outlive it. It outlives the Tickets it gave, or they are of no more use.
  CachingStreamAuthorizer(Timers& timers, StreamAuthorizer& source, RevisionWatch& watch, Settings settings);
  ~CachingStreamAuthorizer() override;

  std::optional<Result<Grant>> lookup(const StreamRequest& request) override;
  Result<Ticket> authorize(StreamRequest request, Delegate<void(Result<Grant>)> done) override;

  Stats stats() const;
  std::size_t decisions_under_way_count() const { return flights_.flights_count(); }

 private:
  static constexpr int64_t kNever = INT64_MAX;
  // A kept decision.
  struct Entry {
    std::string owner_user_id;
    int64_t expires_at_us = kNever;     // of the token, wall clock
    const char* denied_text = nullptr;  // static; null: allowed
  };
  using Flights = SingleFlight<Result<Grant>>;
  struct Decision;

  void on_rights_moved(uint64_t generation) override;
  void follow_generation();
  void release_slice();
  bool uses_allows() const;
  Result<void> decide(Decision& decision);
  void on_answer(Decision& decision, Result<Grant> answer);
  void decide_again(Decision& decision);
  bool is_overtaken(const Decision& decision, const Result<Grant>& answer) const;
  void tell(Decision& decision, Result<Grant> answer);
  void keep(const Decision& decision, const Result<Grant>& answer);
  void count(Way way, const Result<Grant>& answer);

  Timers& timers_;
  StreamAuthorizer& source_;
  RevisionWatch& watch_;
  const Settings settings_;
  uint64_t kept_generation_;  // of everything in kept_
  TtlCache<Entry> kept_;
  Flights flights_;
  Stats stats_;
  Ticket slice_;
};

}  // namespace tmesh::server
