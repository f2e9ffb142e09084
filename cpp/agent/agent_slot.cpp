#include "cpp/agent/agent_slot.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/proto/metadata.h"
#include "cpp/base/log.hpp"
#include "cpp/base/random.hpp"
#include "cpp/session/metadata_items.hpp"

namespace tmesh::agent {
namespace {

// "No limit" of the configuration; memory ends before this many streams do.
constexpr uint32_t kStreamsMax = 65'536;

uint32_t announced_capabilities(const config::Capabilities& c) {
  return TMESH_CAP_PROTOCOLS | tmesh_capability_enabled(c.open_result, c.flow_control, c.fair_writer,
                                                        c.early_data, c.window_growth);
}

// Deployed servers answer an agent's list with itself, ours never with the names of
// protocols, which our agents always announce: a list that holds one is an echo and proves
// nothing (docs/decisions/0011).
uint32_t proven_extensions(uint32_t acknowledged, uint32_t announced) {
  if ((acknowledged & TMESH_CAP_PROTOCOLS) != 0) return 0;
  return tmesh_capability_intersect(acknowledged, announced) &
         (TMESH_CAP_EARLY_DATA | TMESH_CAP_WINDOW_GROWTH);
}

uint32_t streams_max(const config::AgentStreamSettings& s) {
  if (s.active_max == 0) return kStreamsMax;
  return static_cast<uint32_t>(std::min<uint64_t>(s.active_max, kStreamsMax));
}

DialSettings dial_settings(const config::AgentStreamSettings& s) {
  DialSettings out;
  out.concurrent_max = static_cast<std::size_t>(s.concurrent_dials_max);
  out.pending_max = static_cast<std::size_t>(s.pending_dials_max);
  out.connect_timeout_us = s.connect_timeout_us;
  out.open_timeout_us = s.open_timeout_us;
  return out;
}

}  // namespace

AgentSlot::AgentSlot(net::Loop& loop, Timers& timers, Dialer& dialer, const AgentIdentity& identity,
                     AgentShared& shared, const Policy& policy, uint32_t number)
    : timers_(timers),
      dialer_(dialer),
      identity_(identity),
      shared_(shared),
      targets_{loop,
               timers,
               shared.samples,
               shared.datagrams_dropped_count,
               identity.config.streams,
               &shared.target_tls},
      policy_(policy),
      slot_(loop, timers, dialer, identity.endpoint, false, 0, number, *this) {}

AgentSlot::~AgentSlot() = default;

std::size_t AgentSlot::streams_count() const {
  std::size_t count = 0;
  for (const auto& [session, life] : lives_) count += life->streams.size();
  for (const auto& life : finishing_) count += life->streams.size();
  return count;
}

void AgentSlot::retire() {
  if (is_retiring()) return;
  retired_us_ = timers_.now_us();
  const tmesh_mux* const mux = current_mux();
  slot_.drain(mux != nullptr && mux->config.peer_is_ours);
}

bool AgentSlot::is_retired() const {
  return is_retiring() && streams_count() == 0 && timers_.now_us() >= retired_us_ + kLinger_us;
}

LinkLoad AgentSlot::load() {
  LinkLoad load;
  load.slot = number();
  load.is_retiring = is_retiring();
  session::Session* const session = slot_.ready();
  if (session == nullptr) return load;
  const Life& life = *lives_.at(session);
  load.is_ready = life.is_accepted;
  load.pending_opens_count =
      life.executor.pending_count() + life.executor.running_count() + life.executor.slow_count();
  load.active_count = life.streams.size() - std::min(life.streams.size(), load.pending_opens_count);
  load.rtt_us = session->rtt_us();
  load.queue_pressure_percent = queue_pressure_percent(life, *session->mux());
  return load;
}

uint32_t AgentSlot::queue_pressure_percent(const Life& life, const tmesh_mux& mux) const {
  const uint64_t dials_max = identity_.config.streams.pending_dials_max;
  const uint64_t dials = life.executor.pending_count() * 100 / dials_max;
  const uint64_t control = mux.control_count * 100 / TMESH_CONTROL_QUEUE_MAX_FRAMES;
  return static_cast<uint32_t>(std::max(dials, control));
}

std::size_t AgentSlot::pending_dials_count() const {
  std::size_t count = 0;
  for (const auto& [session, life] : lives_) count += life->executor.pending_count();
  return count;
}

uint64_t AgentSlot::oldest_dial_wait_us() const {
  uint64_t wait_us = 0;
  for (const auto& [session, life] : lives_) wait_us = std::max(wait_us, life->executor.oldest_wait_us());
  return wait_us;
}

const tmesh_mux* AgentSlot::current_mux() {
  session::Session* const session = slot_.ready();
  return session == nullptr ? nullptr : session->mux();
}

tmesh_mux_config AgentSlot::mux_config(tmesh_subprotocol) {
  const auto& config = identity_.config;
  tmesh_mux_config mux{};
  mux.is_opener = false;
  // A strict open may cross our reading of the ack (LESSONS Z4): what was announced
  // holds from the start, and the frame itself says what it wants.
  mux.has_open_result = config.capabilities.open_result;
  // Whatever was announced: a server takes stream_open_result.v1 for windows too, and
  // the window of an open is the signal (requirement E3).
  mux.has_flow_control = true;
  mux.resets_unknown_data = true;
  mux.initial_window_bytes = TMESH_WINDOW_INITIAL_BYTES;
  mux.window_threshold_bytes = TMESH_WINDOW_THRESHOLD_BYTES;
  mux.inbound_max_bytes = static_cast<uint32_t>(config.streams.inbound_buffer_bytes);
  mux.outbound_max_bytes = TMESH_WINDOW_LEGACY_CAP_BYTES;
  mux.window_max_bytes = static_cast<uint32_t>(config.limits.max_window_bytes);
  mux.violations_max = static_cast<uint32_t>(config.limits.window_violations_count);
  mux.violations_period_us = config.limits.window_violations_interval_us;
  mux.streams_max = streams_max(config.streams);
  // Until the server proves to be ours: deployed ones hold 16 DATA frames of a stream (LESSONS Z3).
  mux.coalesce_us = TMESH_COALESCE_US;
  return mux;
}

void AgentSlot::on_session(session::Session& session, tmesh_subprotocol) {
  is_strict_ = false;  // until its server says otherwise
  auto life =
      std::make_unique<Life>(*this, timers_, dialer_, policy_, dial_settings(identity_.config.streams));
  life->connection_id = random_hex(16);
  send_hello(session, *life);
  lives_[&session] = std::move(life);
}

void AgentSlot::on_session_over(session::Session& session) {
  const auto found = lives_.find(&session);
  std::unique_ptr<Life> life = std::move(found->second);
  lives_.erase(found);
  // Streams that the end of the link concerned are gone already: they got their OVER.
  // The others have everything their server sent, and their targets shall have it too.
  life->executor.stop();
  if (life->streams.empty()) return;
  life->is_finishing = true;
  finishing_.push_back(std::move(life));
  finishing_.back()->place = std::prev(finishing_.end());
}

void AgentSlot::send_hello(session::Session& session, Life& life) {
  const auto items = session::collect_metadata_items(identity_.config.metadata);
  auto hello = std::make_unique<tmesh_agent_metadata>();
  std::memset(hello.get(), 0, sizeof *hello);
  hello->agent_id = identity_.config.id.c_str();
  hello->instance_id = identity_.instance_id.c_str();
  hello->connection_id = life.connection_id.c_str();
  hello->node_id = identity_.config.id.c_str();
  hello->epoch = 1;
  hello->revision = ++revision_;
  hello->reported_at = session::metadata_time(timers_.wall_us());
  hello->capabilities = announced_capabilities(identity_.config.capabilities);
  session::put_metadata(*hello, items);
  const std::vector<uint8_t> payload = session::encode_hello(*hello, &tmesh_agent_metadata_encode);
  if (payload.empty()) return session.fail(tmesh_err_session(TMESH_E_INVALID));
  session.send(TMESH_FRAME_AGENT_HELLO, payload);
}

tmesh_status AgentSlot::on_control(session::Session& session, const tmesh_frame_header& header,
                                   std::span<const uint8_t> payload) {
  if (header.type == TMESH_FRAME_AGENT_METADATA_ACK) on_ack(session, payload);
  return tmesh_ok();
}

void AgentSlot::on_ack(session::Session& session, std::span<const uint8_t> payload) {
  auto ack = std::make_unique<tmesh_agent_metadata_ack>();
  std::memset(ack.get(), 0, sizeof *ack);
  if (!tmesh_is_ok(tmesh_agent_metadata_ack_decode(ack.get(), payload.data(), payload.size()))) {
    log::warn("hello_ack_malformed", {{"slot", slot_.number()}});
    return;
  }
  shared_.is_pool_supported = ack->has_connection_pool;
  shared_.server_max = ack->connections_per_agent_max;
  if (ack->is_accepted) {
    lives_.at(&session)->is_accepted = true;
    is_strict_ = (ack->capabilities & TMESH_CAP_OPEN_RESULT) != 0;
    log::info("registered", {{"slot", slot_.number()}, {"open_mode", is_strict_ ? "strict" : "legacy"}});
    const uint32_t extensions =
        proven_extensions(ack->capabilities, announced_capabilities(identity_.config.capabilities));
    if (extensions != 0) {
      session.use_extensions(extensions, true);
      tmesh_mux_set_coalesce(session.mux(), 0);
    }
    warn_of_ceiling(ack->connections_per_agent_max);
  } else {
    log::warn("hello_refused",
              {{"slot", slot_.number()}, {"code", ack->error_count > 0 ? ack->errors[0].code : "unknown"}});
  }
  tmesh_agent_metadata_ack_free(ack.get());
}

// LESSONS R25: once per value, not per link and reconnect.
void AgentSlot::warn_of_ceiling(uint32_t server_max) {
  const uint64_t wanted = identity_.config.connections.max_count;
  if (server_max == 0 || server_max >= wanted) return;
  if (!shared_.warned_ceilings.insert(server_max).second) return;
  log::warn("connections_limited", {{"server_max", server_max}, {"wanted", wanted}});
}

void AgentSlot::on_open(session::Session& session, tmesh_stream* stream, const tmesh_open_stream& open) {
  auto claim = shared_.ceiling.claim();
  if (!claim) {
    const tmesh_open_result full = tmesh_open_refuse(TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL, true);
    tmesh_stream_answer(stream, &full);
    tmesh_stream_release(stream);
    return;
  }
  Life& life = *lives_.at(&session);
  life.streams.push_back(std::make_unique<TargetStream>(
      targets_, stream, std::move(*claim), TargetStream::Over::bind<&Life::on_stream_over>(&life)));
  TargetStream& target = *life.streams.back();
  target.place = std::prev(life.streams.end());
  target.start(life.executor, open);
}

}  // namespace tmesh::agent
