#include "cpp/server/agent_presence.hpp"

#include <algorithm>

#include "cpp/base/log.hpp"

namespace tmesh::server {
namespace {

constexpr const char* kNoReport = R"({"items":[],"errors":[],"capabilities":[]})";

bool is_same(const storage::MetadataRecord& a, int64_t epoch, int64_t revision) {
  return a.epoch == epoch && a.revision == revision;
}

}  // namespace

AgentPresence::AgentPresence(Timers& timers, PresenceWriter& writer, ThisNode node,
                             Delegate<void(NodeStanding)> on_standing)
    : timers_(timers), writer_(writer), node_(std::move(node)), on_standing_(on_standing) {}

void AgentPresence::start() {
  tick_ = timers_.after(kTick_us, Delegate<void()>::bind<&AgentPresence::on_tick>(this));
}

void AgentPresence::on_tick() {
  start();
  ticks_count_++;
  are_leases_resting_ = is_metadata_resting_ = false;
  is_beat_due_ = true;
  if (ticks_count_ % kSweepTicks == 0) is_sweep_due_ = true;
  // A round that is not through yet goes on, or what comes last would never be reached.
  if (!renewing_.is_on) renewing_ = {true, {}};
  if (!reporting_.is_on) {
    reporting_ = {true, {}};
    is_touching_ = ticks_count_ % kTouchTicks == 0;
  }
  flush();
}

void AgentPresence::add(RegisteredLink& link, AgentReport report) {
  const Key key{link.agent_id, link.connection_id};
  const Key process_key{link.agent_id, report.row.instance_id};
  Process& process = processes_[process_key];
  process.links_count++;
  departed_.erase(process_key);
  keep_report(process_key, process, std::move(report));
  released_.erase(key);
  Lease& lease = leases_[key];
  // The link it replaces is still to be removed; its process leaves here.
  if (lease.link != nullptr) leave_process({key.first, lease.instance_id});
  lease = Lease{&link, process.report.row.node_id, process_key.second};
  if (!are_leases_resting_ && new_leases_.size() < kGoneMax) new_leases_.push_back(key);
  flush();
}

void AgentPresence::report(const RegisteredLink& link, AgentReport report) {
  const auto lease = leases_.find({link.agent_id, link.connection_id});
  if (lease == leases_.end() || lease->second.link != &link) return;
  const Key key{link.agent_id, lease->second.instance_id};
  keep_report(key, processes_.at(key), std::move(report));
  flush();
}

void AgentPresence::remove(const RegisteredLink& link) {
  const auto lease = leases_.find({link.agent_id, link.connection_id});
  if (lease == leases_.end() || lease->second.link != &link) return;
  if (released_.size() < kGoneMax) {
    released_[lease->first] = link.epoch;
  } else {
    stats_.dropped_count++;
  }
  const Key process{link.agent_id, lease->second.instance_id};
  leases_.erase(lease);
  leave_process(process);
  flush();
}

void AgentPresence::leave(Delegate<void()> done) {
  is_leaving_ = true;
  on_left_ = done;
  tick_ = timers_.after(0, Delegate<void()>::bind<&AgentPresence::flush>(this));
}

void AgentPresence::keep_report(const Key& key, Process& process, AgentReport report) {
  reports_bytes_ -= process.report.row.metadata.size();
  if (reports_bytes_ + report.row.metadata.size() > kReportsMax_bytes) {
    report.row.metadata = kNoReport;
    stats_.dropped_count++;
  }
  reports_bytes_ += report.row.metadata.size();
  process.report = std::move(report);
  process.is_known = false;
  if (!is_metadata_resting_ && new_reports_.size() < kGoneMax) new_reports_.push_back(key);
}

void AgentPresence::leave_process(const Key& key) {
  const auto process = processes_.find(key);
  if (--process->second.links_count > 0) return;
  const storage::MetadataRecord& row = process->second.report.row;
  if (departed_.size() < kGoneMax) {
    departed_[key] = {row.epoch, row.revision, process->second.report.is_unreported};
  } else {
    stats_.dropped_count++;
  }
  reports_bytes_ -= row.metadata.size();
  processes_.erase(process);
}

void AgentPresence::flush() {
  if (write_.active() || has_left_) return;
  PresenceBatch batch;
  batch.node = node_;
  batch.leaves = is_leaving_;
  if (!is_leaving_) {
    batch.beats = std::exchange(is_beat_due_, false);
    if (!are_leases_resting_) {
      take_releases(batch);
      take_leases(batch);
    }
    if (!is_metadata_resting_) take_metadata(batch);
    // When nothing else is to be said.
    if (batch.is_empty()) batch.sweeps = std::exchange(is_sweep_due_, false);
  }
  if (batch.is_empty()) return;
  stats_.writes_count++;
  in_flight_ = batch;
  auto asked = writer_.write_presence(
      std::move(batch), Delegate<void(PresenceOutcome)>::bind<&AgentPresence::on_written>(this));
  if (asked) {
    write_ = std::move(*asked);
    return;
  }
  PresenceOutcome nothing;
  nothing.node = nothing.leases = nothing.metadata = nothing.sweep = std::unexpected(asked.error());
  on_written(std::move(nothing));
}

void AgentPresence::take_releases(PresenceBatch& batch) {
  for (const auto& [key, epoch] : released_) {
    if (batch.releases.size() == kGonePerWrite) break;
    batch.releases.push_back({key.first, key.second, epoch});
  }
}

// False: it has to wait for another write.
bool AgentPresence::take_lease(PresenceBatch& batch, const Key& key, const Lease& lease,
                               std::size_t& singles_count) {
  if (batch.leases.size() == kLeasesPerWrite) return false;
  if (!lease.is_known && singles_count >= kNewPerWrite) return false;
  PresenceBatch::Lease& taken = batch.leases.emplace_back();
  taken.is_known = lease.is_known;
  storage::LeaseRecord& row = taken.row;
  row.agent_id = key.first;
  row.connection_id = key.second;
  row.node_id = lease.node_id;
  row.instance_id = lease.instance_id;
  row.server_node_id = node_.id;
  row.epoch = node_.epoch;
  row.connection_epoch = lease.link->epoch;
  row.active_streams = static_cast<int64_t>(lease.link->streams_count());
  row.health_score = lease.link->health_score();
  const bool has_changed =
      row.active_streams != lease.written_streams_count || row.health_score != lease.written_health;
  taken.has_new_load = has_changed && (!lease.is_known || singles_count < kLoadsPerWrite);
  if (!taken.is_known || taken.has_new_load) singles_count++;
  return true;
}

void AgentPresence::take_leases(PresenceBatch& batch) {
  std::size_t singles_count = 0;
  while (!new_leases_.empty()) {
    const auto lease = leases_.find(new_leases_.front());
    const bool is_wanted = lease != leases_.end() && !lease->second.is_known;
    if (is_wanted && !take_lease(batch, lease->first, lease->second, singles_count)) return;
    new_leases_.pop_front();
  }
  if (!renewing_.is_on) return;
  for (auto lease = leases_.upper_bound(renewing_.after); lease != leases_.end(); ++lease) {
    if (!take_lease(batch, lease->first, lease->second, singles_count)) return;
    renewing_.after = lease->first;
  }
  renewing_.is_on = false;
}

void AgentPresence::take_metadata(PresenceBatch& batch) {
  for (const auto& [key, gone] : departed_) {
    if (batch.departures.size() == kGonePerWrite) break;
    batch.departures.push_back({{key.first, key.second, gone.epoch, gone.revision}, gone.is_unreported});
  }
  while (!new_reports_.empty()) {
    const auto process = processes_.find(new_reports_.front());
    if (process != processes_.end() && !process->second.is_known) {
      if (batch.reports.size() == kReportsPerWrite) return;
      batch.reports.push_back(process->second.report.row);
    }
    new_reports_.pop_front();
  }
  if (!reporting_.is_on) return;
  for (auto process = processes_.upper_bound(reporting_.after); process != processes_.end(); ++process) {
    const storage::MetadataRecord& row = process->second.report.row;
    if (!process->second.is_known) {
      if (batch.reports.size() == kReportsPerWrite) return;
      batch.reports.push_back(row);
    } else if (is_touching_) {
      if (batch.touches.size() == kTouchesPerWrite) return;
      batch.touches.push_back({row.agent_id, row.instance_id, row.epoch, row.revision});
    }
    reporting_.after = process->first;
  }
  reporting_.is_on = false;
}

void AgentPresence::on_written(PresenceOutcome written) {
  const PresenceOutcome outcome = std::move(written);
  write_.release();
  const PresenceBatch batch = std::exchange(in_flight_, {});
  node_written(batch, outcome);
  leases_written(batch, outcome);
  metadata_written(batch, outcome);
  if (batch.sweeps) {
    tell(sweep_part, outcome.sweep);
    if (outcome.sweep && outcome.has_more_to_sweep) is_sweep_due_ = true;
  }
  if (batch.leaves) {
    has_left_ = true;
    return on_left_();
  }
  flush();
}

void AgentPresence::tell(Part part, const Result<void>& done) {
  static constexpr const char* names[] = {"node", "leases", "metadata", "sweep"};
  const bool was_failing = std::exchange(is_failing_[part], !done.has_value());
  if (!done && !was_failing) {
    log::warn("presence_not_written", {{"part", names[part]}, {"reason", done.error().text}});
  }
  if (done && was_failing) log::info("presence_written_again", {{"part", names[part]}});
}

void AgentPresence::node_written(const PresenceBatch& batch, const PresenceOutcome& outcome) {
  if (!batch.beats) return;
  tell(node_part, outcome.node);
  if (!outcome.node) {
    stats_.node_failed_count++;
    return;
  }
  if (std::exchange(standing_, outcome.standing) == outcome.standing) return;
  log::warn("node_standing", {{"node", node_.id}, {"standing", node_standing_name(standing_)}});
  on_standing_(standing_);
}

void AgentPresence::leases_written(const PresenceBatch& batch, const PresenceOutcome& outcome) {
  if (batch.releases.empty() && batch.leases.empty()) return;
  tell(leases_part, outcome.leases);
  if (!outcome.leases) {
    stats_.leases_failed_count++;
    are_leases_resting_ = true;
    renewing_.is_on = false;
    new_leases_.clear();
    return;
  }
  stats_.registered_again_count += outcome.registered_again_count;
  stats_.held_elsewhere_count += outcome.held.size();
  for (const storage::LeaseKey& key : batch.releases) {
    const auto released = released_.find({key.agent_id, key.connection_id});
    if (released != released_.end() && released->second == key.connection_epoch) released_.erase(released);
  }
  for (std::size_t i = 0; i < batch.leases.size(); ++i) {
    const storage::LeaseRecord& row = batch.leases[i].row;
    const auto lease = leases_.find({row.agent_id, row.connection_id});
    if (lease == leases_.end() || lease->second.link->epoch != row.connection_epoch) continue;
    if (lease->second.instance_id != row.instance_id) continue;  // another link of this name came
    lease->second.is_known = std::ranges::find(outcome.held, i) == outcome.held.end();
    if (batch.leases[i].is_known && !batch.leases[i].has_new_load) continue;
    lease->second.written_streams_count = row.active_streams;
    lease->second.written_health = row.health_score;
  }
}

void AgentPresence::metadata_written(const PresenceBatch& batch, const PresenceOutcome& outcome) {
  if (batch.departures.empty() && batch.reports.empty() && batch.touches.empty()) return;
  tell(metadata_part, outcome.metadata);
  if (!outcome.metadata) {
    stats_.metadata_failed_count++;
    is_metadata_resting_ = true;
    reporting_.is_on = false;
    new_reports_.clear();
    return;
  }
  for (const PresenceBatch::Departure& gone : batch.departures) {
    const auto departed = departed_.find({gone.key.agent_id, gone.key.instance_id});
    if (departed == departed_.end()) continue;
    if (departed->second.epoch == gone.key.epoch && departed->second.revision == gone.key.revision) {
      departed_.erase(departed);
    }
  }
  // One that the database holds a newer report of counts as known: the next touch looks again.
  for (const storage::MetadataRecord& row : batch.reports) {
    const auto process = processes_.find({row.agent_id, row.instance_id});
    if (process == processes_.end()) continue;
    if (is_same(process->second.report.row, row.epoch, row.revision)) process->second.is_known = true;
  }
  for (const std::size_t i : outcome.missing) {
    const storage::MetadataKey& key = batch.touches[i];
    const auto process = processes_.find({key.agent_id, key.instance_id});
    if (process == processes_.end() || !is_same(process->second.report.row, key.epoch, key.revision))
      continue;
    process->second.is_known = false;
    if (new_reports_.size() < kGoneMax) new_reports_.push_back(process->first);
  }
}

}  // namespace tmesh::server
