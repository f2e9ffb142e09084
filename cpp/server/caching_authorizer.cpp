#include "cpp/server/caching_authorizer.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "cpp/server/target.hpp"

namespace tmesh::server {
namespace {

constexpr uint64_t kSqliteNegativeTtlMax_us = 1'000'000;  // D3

// The part of requirement D2's key that is no generation; empty: the question is not one
// that could be answered with yes. Lengths go first, so that no two questions look alike.
std::string key_of(const StreamRequest& request, const Target& target) {
  const std::size_t token_bytes = request.token_id.size();
  if (token_bytes > UINT16_MAX || request.agent_id.size() > agent_id_bytes_max) return {};
  std::string key;
  key.reserve(6 + token_bytes + request.agent_id.size() + target.host.size());
  for (const std::size_t part : {token_bytes >> 8, token_bytes, request.agent_id.size(),
                                 std::size_t{target.port} >> 8, std::size_t{target.port}}) {
    key += static_cast<char>(part & 0xff);
  }
  key += target.protocol.front();  // the four known ones differ in it
  key += request.token_id;
  key += request.agent_id;
  key += target.host;
  return key;
}

// Not an error of the moment.
bool is_decided(const Result<Grant>& answer) {
  return answer || answer.error().code == TMESH_E_POLICY;
}

}  // namespace

// A question on its way.
struct CachingStreamAuthorizer::Decision final : Flights::Flight {
  Decision(CachingStreamAuthorizer& authorizer, StreamRequest question, Way made)
      : owner(authorizer), request(std::move(question)), way(made) {}
  void on_answer(Result<Grant> answer) { owner.on_answer(*this, std::move(answer)); }

  CachingStreamAuthorizer& owner;
  const StreamRequest request;
  Target target;
  std::string key;  // empty: the answer is not kept
  Way way;          // the next caller's who is told
  uint64_t generation = 0;
  uint64_t begun_us = 0;
  int decisions_count = 0;
  Ticket source;
};

CachingStreamAuthorizer::Settings CachingStreamAuthorizer::settings(
    const config::AuthorizationCacheSettings& configured, config::StorageSettings::Driver driver) {
  const bool is_sqlite = driver == config::StorageSettings::Driver::sqlite;
  return {
      configured.is_enabled,
      is_sqlite ? configured.local_positive_ttl_us : configured.cluster_positive_ttl_us,
      is_sqlite ? std::min(configured.negative_ttl_us, kSqliteNegativeTtlMax_us) : configured.negative_ttl_us,
      configured.stale_on_poll_error_max_us, static_cast<std::size_t>(configured.entries_max)};
}

CachingStreamAuthorizer::CachingStreamAuthorizer(Timers& timers, StreamAuthorizer& source,
                                                 RevisionWatch& watch, Settings settings)
    : timers_(timers),
      source_(source),
      watch_(watch),
      settings_(settings),
      kept_generation_(watch.generation()),
      kept_(settings.is_enabled ? settings.entries_max : 1) {
  watch_.add_listener(*this);
}

CachingStreamAuthorizer::~CachingStreamAuthorizer() {
  watch_.remove_listener(*this);
}

// D8 and D9.
bool CachingStreamAuthorizer::uses_allows() const {
  return watch_.is_healthy() || (watch_.is_consistent() && timers_.now_us() - watch_.last_good_us() <=
                                                               settings_.stale_on_poll_error_max_us);
}

// Not left to the call of the watch alone: a listener before us may ask.
void CachingStreamAuthorizer::follow_generation() {
  if (std::exchange(kept_generation_, watch_.generation()) == watch_.generation()) return;
  kept_.drop();
  if (!slice_.active()) release_slice();
}

void CachingStreamAuthorizer::on_rights_moved(uint64_t) {
  follow_generation();
}

void CachingStreamAuthorizer::release_slice() {
  slice_.release();
  if (!kept_.release(kSliceSlots)) return;
  slice_ =
      timers_.after(kSliceInterval_us, Delegate<void()>::bind<&CachingStreamAuthorizer::release_slice>(this));
}

std::optional<Result<Grant>> CachingStreamAuthorizer::lookup(const StreamRequest& request) {
  if (!settings_.is_enabled || !watch_.is_consistent()) return std::nullopt;
  Result<Target> target = normalize_target(request.protocol, request.host, request.port);
  if (!target) return std::nullopt;
  follow_generation();
  const Entry* entry = kept_.find(key_of(request, *target), timers_.now_us());
  if (entry == nullptr) return std::nullopt;
  Result<Grant> answer;
  if (entry->denied_text != nullptr) {
    answer = fail(TMESH_E_POLICY, entry->denied_text);
  } else {
    if (!uses_allows() || entry->expires_at_us <= timers_.wall_us()) return std::nullopt;
    answer = Grant{request.token_id,
                   entry->owner_user_id,
                   request.agent_id,
                   std::move(*target),
                   entry->expires_at_us == kNever ? std::nullopt : std::optional(entry->expires_at_us),
                   kept_generation_};
  }
  count(Way::hit, answer);
  return answer;
}

Result<Ticket> CachingStreamAuthorizer::authorize(StreamRequest request, Delegate<void(Result<Grant>)> done) {
  std::string key;
  Result<Target> target = fail(TMESH_E_POLICY, "not normalised");
  if (settings_.is_enabled && watch_.is_consistent()) {
    target = normalize_target(request.protocol, request.host, request.port);
    if (target) key = key_of(request, *target);
  }
  // Where allows may not be used, a decision begun for somebody else is no better.
  const bool is_shared = !key.empty() && uses_allows();
  if (Flights::Flight* under_way = is_shared ? flights_.find(key) : nullptr)
    return flights_.join(*under_way, done);
  auto made = std::make_unique<Decision>(*this, std::move(request), is_shared ? Way::miss : Way::bypass);
  Decision& decision = *made;
  decision.key = std::move(key);
  if (target) decision.target = std::move(*target);
  flights_.begin(is_shared ? decision.key : std::string(), std::move(made));
  if (Result<void> begun = decide(decision); !begun) {
    count(decision.way, std::unexpected(begun.error()));
    flights_.abandon(decision);
    return std::unexpected(begun.error());
  }
  return flights_.join(decision, done);
}

Result<void> CachingStreamAuthorizer::decide(Decision& decision) {
  decision.generation = watch_.generation();
  decision.begun_us = timers_.now_us();
  decision.decisions_count++;
  Result<Ticket> asked = source_.authorize(
      decision.request, Delegate<void(Result<Grant>)>::bind<&Decision::on_answer>(&decision));
  if (!asked) return std::unexpected(asked.error());
  decision.source = std::move(*asked);
  return {};
}

// Z6: the answer may rest on what was before rights moved. The last no stays one all the
// same: it was true once, and a running stream must not live on because rights move all the time.
bool CachingStreamAuthorizer::is_overtaken(const Decision& decision, const Result<Grant>& answer) const {
  return is_decided(answer) && decision.generation != watch_.generation() &&
         (answer || decision.decisions_count < kDecisionsMax);
}

void CachingStreamAuthorizer::on_answer(Decision& decision, Result<Grant> answer) {
  decision.source.release();
  if (is_overtaken(decision, answer)) return decide_again(decision);
  if (decision.generation == watch_.generation()) keep(decision, answer);
  tell(decision, std::move(answer));
}

void CachingStreamAuthorizer::decide_again(Decision& decision) {
  Result<void> begun = decision.decisions_count < kDecisionsMax
                           ? decide(decision)
                           : fail(TMESH_E_TIMEOUT, "rights moved during every decision");
  if (!begun) return tell(decision, std::unexpected(begun.error()));
  stats_.decided_again_count++;
}

// Last call for the decision, unless rights move while its callers are told.
void CachingStreamAuthorizer::tell(Decision& decision, Result<Grant> answer) {
  if (answer) answer->generation = decision.generation;
  const auto is_good = [&] {
    if (is_overtaken(decision, answer)) return false;
    count(decision.way, answer);
    if (decision.way == Way::miss) decision.way = Way::shared;
    return true;
  };
  if (flights_.end(decision, answer, is_good) != nullptr) decide_again(decision);
}

void CachingStreamAuthorizer::keep(const Decision& decision, const Result<Grant>& answer) {
  if (decision.key.empty() || !is_decided(answer) || !watch_.is_consistent()) return;
  follow_generation();
  if (!answer) {
    kept_.put(decision.key, {{}, kNever, answer.error().text}, decision.begun_us + settings_.negative_ttl_us);
    return;
  }
  // An entry has what lookup() cannot take from the question. A new part of a grant has to
  // be one or the other.
  const auto& [token_id, owner_user_id, agent_id, target, expires_at_us, generation] = *answer;
  const Target& wanted = decision.target;
  if (token_id != decision.request.token_id || agent_id != decision.request.agent_id ||
      target.protocol != wanted.protocol || target.host != wanted.host || target.port != wanted.port)
    return;
  kept_.put(decision.key, {owner_user_id, expires_at_us.value_or(kNever), nullptr},
            decision.begun_us + settings_.positive_ttl_us);
}

void CachingStreamAuthorizer::count(Way way, const Result<Grant>& answer) {
  const Outcome outcome = answer ? Outcome::allow : is_decided(answer) ? Outcome::deny : Outcome::failed;
  stats_.answers_count[static_cast<std::size_t>(way)][static_cast<std::size_t>(outcome)]++;
}

CachingStreamAuthorizer::Stats CachingStreamAuthorizer::stats() const {
  Stats now = stats_;
  now.evictions_count = kept_.evictions_count();
  now.entries_count = kept_.size();
  return now;
}

}  // namespace tmesh::server
