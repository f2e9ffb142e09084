#include "cpp/agent/agent_slot.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/proto/metadata.h"
#include "cpp/agent/metadata_items.hpp"
#include "cpp/base/log.hpp"
#include "cpp/base/random.hpp"

namespace tmesh::agent {
namespace {

// "No limit" of the configuration; memory ends before this many streams do.
constexpr uint32_t kStreamsMax = 65'536;

uint32_t announced_capabilities(const config::Capabilities& c) {
  return TMESH_CAP_PROTOCOLS | tmesh_capability_enabled(c.open_result, c.flow_control, c.fair_writer);
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
                     const Policy& policy, uint32_t number)
    : loop_(loop),
      timers_(timers),
      dialer_(dialer),
      identity_(identity),
      policy_(policy),
      slot_(loop, timers, dialer, identity.endpoint, false, 0, number, *this) {}

AgentSlot::~AgentSlot() = default;

std::size_t AgentSlot::streams_count() const {
  std::size_t count = 0;
  for (const auto& [session, life] : lives_) count += life->streams.size();
  for (const auto& life : finishing_) count += life->streams.size();
  return count;
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
  mux.streams_max = streams_max(config.streams);
  return mux;
}

void AgentSlot::on_session(session::Session& session, tmesh_subprotocol) {
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
  const auto items = collect_metadata(identity_.config.metadata);
  auto hello = std::make_unique<tmesh_agent_metadata>();
  std::memset(hello.get(), 0, sizeof *hello);
  hello->agent_id = identity_.config.id.c_str();
  hello->instance_id = identity_.instance_id.c_str();
  hello->connection_id = life.connection_id.c_str();
  hello->node_id = identity_.config.id.c_str();
  hello->epoch = 1;
  hello->revision = ++revision_;
  const int64_t wall_us = timers_.wall_us();
  hello->reported_at = {wall_us / 1'000'000, static_cast<uint32_t>(wall_us % 1'000'000) * 1000};
  hello->capabilities = announced_capabilities(identity_.config.capabilities);
  for (const auto& item : items) {
    if (item.is_failed) {
      if (hello->error_count == TMESH_METADATA_ERRORS_MAX) continue;
      hello->errors[hello->error_count++] = {item.name.c_str(), "collection_error", "cannot be read"};
    } else if (hello->item_count < TMESH_METADATA_ITEMS_MAX) {
      hello->items[hello->item_count++] = {item.name.c_str(), item.source, item.value.c_str(), false};
    }
  }
  std::vector<char> text(TMESH_METADATA_MAX_BYTES);
  std::size_t len = 0;
  if (!tmesh_is_ok(tmesh_agent_metadata_encode(hello.get(), text.data(), text.size(), &len))) {
    // Only the items can be too much; the agent is more useful without them than offline.
    log::warn("metadata_too_large");
    hello->item_count = 0;
    hello->error_count = 0;
    if (!tmesh_is_ok(tmesh_agent_metadata_encode(hello.get(), text.data(), text.size(), &len))) {
      return session.fail(tmesh_err_session(TMESH_E_INVALID));
    }
  }
  session.send(TMESH_FRAME_AGENT_HELLO, {reinterpret_cast<const uint8_t*>(text.data()), len});
}

tmesh_status AgentSlot::on_control(session::Session&, const tmesh_frame_header& header,
                                   std::span<const uint8_t> payload) {
  if (header.type == TMESH_FRAME_AGENT_METADATA_ACK) on_ack(payload);
  return tmesh_ok();
}

void AgentSlot::on_ack(std::span<const uint8_t> payload) {
  auto ack = std::make_unique<tmesh_agent_metadata_ack>();
  std::memset(ack.get(), 0, sizeof *ack);
  if (!tmesh_is_ok(tmesh_agent_metadata_ack_decode(ack.get(), payload.data(), payload.size()))) {
    log::warn("hello_ack_malformed", {{"slot", slot_.number()}});
    return;
  }
  if (ack->is_accepted) {
    log::info("registered",
              {{"slot", slot_.number()},
               {"open_mode", (ack->capabilities & TMESH_CAP_OPEN_RESULT) != 0 ? "strict" : "legacy"}});
  } else {
    log::warn("hello_refused",
              {{"slot", slot_.number()}, {"code", ack->error_count > 0 ? ack->errors[0].code : "unknown"}});
  }
  tmesh_agent_metadata_ack_free(ack.get());
}

void AgentSlot::on_open(session::Session& session, tmesh_stream* stream, const tmesh_open_stream& open) {
  Life& life = *lives_.at(&session);
  life.streams.push_back(
      std::make_unique<TargetStream>(loop_, stream, TargetStream::Over::bind<&Life::on_stream_over>(&life)));
  TargetStream& target = *life.streams.back();
  target.place = std::prev(life.streams.end());
  // The mux counts what is live; here count those too that only have a slow target left.
  if (life.streams.size() > streams_max(identity_.config.streams)) return target.refuse_full();
  target.start(life.executor, open);
}

}  // namespace tmesh::agent
