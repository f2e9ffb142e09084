#include "cpp/client/session_pools.hpp"

#include <utility>
#include <vector>

#include "cpp/base/log.hpp"

namespace tmesh::client {

SessionPools::SessionPools(net::Loop& loop, Timers& timers, Dialer& dialer, const ClientIdentity& identity)
    : parts_{loop, timers, dialer, identity, identity.config.connections} {}

SessionPools::~SessionPools() {
  clear();
}

void SessionPools::use_agents(const std::set<std::string>& ids) {
  std::vector<AgentPool*> gone;
  for (auto it = pools_.begin(); it != pools_.end();) {
    if (ids.contains(it->first)) {
      ++it;
      continue;
    }
    gone.push_back(it->second.get());
    leaving_.push_back(std::move(it->second));
    it = pools_.erase(it);
  }
  for (const std::string& id : ids) {
    auto& pool = pools_[id];
    if (pool != nullptr) continue;
    pool = std::make_unique<AgentPool>(parts_, id,
                                       AgentPool::Changed::bind<&SessionPools::on_pool_change>(this));
    if (is_started_ && !is_stopping_) pool->start();
  }
  for (AgentPool* pool : gone) pool->drain();
  plan_sweep();
  // Whoever waits for a link of them hears that none will come, and may call this again.
  for (const AgentPool* pool : gone) wake(*pool);
}

void SessionPools::use_settings(const config::PoolSettings& settings) {
  parts_.settings = settings;
  for (const auto& [id, pool] : pools_) pool->fit();
  plan_sweep();
  if (is_started_ && !is_stopping_) plan_evaluation();
}

void SessionPools::start() {
  is_started_ = true;
  for (const auto& [id, pool] : pools_) pool->start();
  plan_evaluation();
}

void SessionPools::drain() {
  is_stopping_ = true;
  evaluation_.cancel();
  for (const auto& [id, pool] : pools_) pool->drain();
}

void SessionPools::clear() {
  evaluation_.cancel();
  sweep_.cancel();
  silences_.clear();
  waiting_.clear();
  leaving_.clear();
  pools_.clear();
}

AgentPool* SessionPools::pool_of(std::string_view agent_id) {
  const auto found = pools_.find(agent_id);
  return found == pools_.end() ? nullptr : found->second.get();
}

Result<OpenedStream> SessionPools::open(const OpenRequest& request, bool allow_strict,
                                        const tmesh_mux* not_on) {
  AgentPool* const pool = pool_of(request.agent_id);
  auto opened = pool != nullptr ? pool->open(request, allow_strict, not_on)
                                : Result<OpenedStream>(fail(TMESH_E_CLOSED, "no entry uses this agent"));
  if (opened) {
    stats_.opens_count++;
    if (not_on != nullptr) stats_.hedges_count++;
  } else if (opened.error().code == TMESH_E_CLOSED && not_on == nullptr) {
    stats_.unavailable_count++;
  }
  return opened;
}

void SessionPools::open_timed_out(std::string_view agent_id, const tmesh_stream& stream) {
  if (AgentPool* const pool = pool_of(agent_id)) pool->open_timed_out(stream);
  for (const auto& pool : leaving_) pool->open_timed_out(stream);
}

void SessionPools::hedge_ended(std::string_view, bool is_won) {
  (is_won ? stats_.hedges_won_count : stats_.hedges_lost_count)++;
}

void SessionPools::report(session::StatusReport& out) const {
  for (const auto& [id, pool] : pools_) pool->report(out);
  for (const auto& pool : leaving_) pool->report(out);
  for (const session::StatusReport::Counter counter :
       {session::StatusReport::Counter{"opens", stats_.opens_count},
        {"opens_without_link", stats_.unavailable_count},
        {"links_added", stats_.grown_count},
        {"links_given_back", stats_.shrunk_count},
        {"hedges", stats_.hedges_count},
        {"hedges_won", stats_.hedges_won_count},
        {"hedges_lost", stats_.hedges_lost_count},
        {"hedges_denied", stats_.hedges_denied_count}}) {
    out.counters.push_back(counter);
  }
}

// --- waiting for a link ---

Ticket SessionPools::await_link(std::string_view agent_id, Delegate<void()> done) {
  AgentPool* const pool = pool_of(agent_id);
  if (pool == nullptr || !pool->is_link_coming()) return {};
  const uint64_t id = next_id_++;
  waiting_.emplace(id, Waiting{pool, done});
  return Ticket(this, id,
                [](void* self, uint64_t n) { static_cast<SessionPools*>(self)->waiting_.erase(n); });
}

void SessionPools::on_pool_change(AgentPool& pool) {
  // One attempt of several failed: the others may still bring a link.
  if (!pool.is_link_coming()) wake(pool);
}

// Each may end its neighbours; who begins to wait meanwhile waits for the next time.
void SessionPools::wake(const AgentPool& pool) {
  const uint64_t end = next_id_;
  auto it = waiting_.begin();
  while (it != waiting_.end() && it->first < end) {
    const uint64_t id = it->first;
    if (it->second.pool == &pool) waiting_.extract(it).mapped().done();
    it = waiting_.upper_bound(id);
  }
}

// --- more and fewer links ---

void SessionPools::plan_evaluation() {
  evaluation_ = parts_.timers.after(parts_.settings.evaluation_interval_us,
                                    Delegate<void()>::bind<&SessionPools::on_evaluation>(this));
}

void SessionPools::on_evaluation() {
  plan_evaluation();
  for (const auto& [id, pool] : pools_) {
    const PoolChange change = pool->evaluate();
    if (change == PoolChange::grow) stats_.grown_count++;
    if (change == PoolChange::shrink) stats_.shrunk_count++;
  }
  plan_sweep();
}

void SessionPools::plan_sweep() {
  bool is_wanted = !leaving_.empty();
  for (const auto& [id, pool] : pools_) is_wanted = is_wanted || pool->draining_count() > 0;
  if (!is_wanted || sweep_.active()) return;
  sweep_ = parts_.timers.after(kSweepEvery_us, Delegate<void()>::bind<&SessionPools::on_sweep>(this));
}

void SessionPools::on_sweep() {
  sweep_.release();
  // While the program stops, the links that have no streams yet go with it.
  if (!is_stopping_) {
    for (const auto& [id, pool] : pools_) pool->sweep();
  }
  for (auto it = leaving_.begin(); it != leaving_.end();) {
    if ((*it)->has_streams()) {
      (*it++)->sweep();
      continue;
    }
    forget(**it);
    it = leaving_.erase(it);
  }
  plan_sweep();
}

void SessionPools::forget(const AgentPool& pool) {
  std::erase_if(waiting_, [&](const auto& entry) { return entry.second.pool == &pool; });
  std::erase_if(silences_, [&](const auto& entry) { return &entry.second.pool == &pool; });
}

// --- hedged opens ---

void SessionPools::Silence::wait(uint64_t us) {
  timer = pools.parts_.timers.after(us, Delegate<void()>::bind<&Silence::on_due>(this));
}

Ticket SessionPools::await_silence(std::string_view agent_id, const tmesh_stream& stream,
                                   Delegate<void()> done) {
  AgentPool* const pool = pool_of(agent_id);
  // Another link may still come; where there is none but this, nothing is asked for.
  if (pool == nullptr || pool->links_count() < 2) return {};
  const auto [link, session] = pool->carrier_of(stream.mux);
  // Without a round-trip time it is not known whether this peer answers PINGs at all.
  if (session == nullptr || session->rtt_us() == 0) return {};
  session->ping();
  const uint64_t id = next_id_++;
  Silence& silence =
      silences_.try_emplace(id, Silence{*this, id, *pool, stream.mux, done, session->bytes_in(), {}})
          .first->second;
  silence.wait(hedge_patience_us(session->smoothed_rtt_us()));
  return Ticket(this, id,
                [](void* self, uint64_t n) { static_cast<SessionPools*>(self)->silences_.erase(n); });
}

void SessionPools::on_silence_due(uint64_t id) {
  const auto found = silences_.find(id);
  Silence& silence = found->second;
  silence.timer.release();
  const auto [link, session] = silence.pool.carrier_of(silence.mux);
  if (session == nullptr || session->bytes_in() != silence.in_bytes) {
    // It lives: the open only takes its time. Or it is over, which the stream tells.
    silences_.erase(found);
    return;
  }
  if (!link->is_silent())
    log::info("link_silent", {{"agent", silence.pool.agent_id()}, {"slot", link->number()}});
  link->note_silent(*session);
  const bool has_other = silence.pool.has_other(*silence.mux);
  if (has_other && hedges_.take(parts_.timers.now_us())) {
    const Delegate<void()> done = silence.done;
    silences_.erase(found);
    return done();
  }
  if (has_other) stats_.hedges_denied_count++;
  silence.wait(hedge_patience_us(session->smoothed_rtt_us()));
}

}  // namespace tmesh::client
