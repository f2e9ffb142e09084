#include "cpp/server/open_flow.hpp"

#include <cstring>
#include <utility>

#include "core/mux/mux.h"
#include "core/proto/capability.h"
#include "cpp/server/cancel_guard.hpp"

namespace tmesh::server {
namespace {

tmesh_open_result authorization_failure(tmesh_code code) {
  switch (code) {
    case TMESH_E_POLICY:
      return tmesh_open_refuse(TMESH_STAGE_AUTHORIZATION, TMESH_OPEN_FORBIDDEN, false);
    case TMESH_E_LIMIT:
      return tmesh_open_refuse(TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL, true);
    case TMESH_E_INVALID:  // a malformed row: fails closed until somebody mends it
      return tmesh_open_refuse(TMESH_STAGE_AUTHORIZATION, TMESH_OPEN_INTERNAL_ERROR, false);
    default:
      return tmesh_open_refuse(TMESH_STAGE_AUTHORIZATION, TMESH_OPEN_INTERNAL_ERROR, true);
  }
}

tmesh_open_result link_failure(tmesh_code code) {
  switch (code) {
    case TMESH_E_LIMIT:
    case TMESH_E_NO_MEMORY:
      return tmesh_open_refuse(TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL, true);
    case TMESH_E_UNSUPPORTED:
    case TMESH_E_INVALID:  // cannot be said to an agent: another attempt changes nothing
    case TMESH_E_TOO_LARGE:
      return tmesh_open_refuse(TMESH_STAGE_PROTOCOL, TMESH_OPEN_UNSUPPORTED_CAPABILITY, false);
    default:
      return tmesh_open_refuse(TMESH_STAGE_SELECTION, TMESH_OPEN_AGENT_OFFLINE, true);
  }
}

}  // namespace

OpenFlow::OpenFlow(const OpenFlowParts& parts, tmesh_stream* client_side, const tmesh_open_stream& open)
    : parts_(parts),
      client_side_(client_side),
      is_strict_(client_side->is_strict),
      open_(std::make_unique<tmesh_open_stream>(open)) {
  tmesh_stream_attach(client_side_, this, &on_client_event);
}

OpenFlow::~OpenFlow() {
  step_.cancel();
  if (client_side_ != nullptr && relay_.empty()) tmesh_stream_release(client_side_);
}

void OpenFlow::start(std::string_view token_id, uint64_t link_id, uint64_t client_key) {
  token_id_ = token_id;
  client_key_ = client_key;
  deadline_ = parts_.timers.after(kDeadline_us, Delegate<void()>::bind<&OpenFlow::on_deadline>(this));
  if (!parts_.executor.submit(*this, token_id, link_id)) refuse_full();
}

void OpenFlow::refuse_full() {
  refuse(tmesh_open_refuse(TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL, true));
}

void OpenFlow::on_run() {
  ran_us_ = parts_.timers.now_us();
  StreamRequest request;
  request.token_id = token_id_;
  request.agent_id = open_->agent_id;
  request.protocol = tmesh_open_protocol_name(open_->protocol);
  request.host = open_->target_host;
  request.port = open_->target_port;
  if (std::optional<Result<Grant>> known = parts_.authorizer.lookup(request)) return on_decided(*known);
  auto step = parts_.authorizer.authorize(
      std::move(request), Delegate<void(Result<Grant>)>::bind<&OpenFlow::on_authorized>(this));
  if (!step) return refuse(authorization_failure(step.error().code));
  step_ = std::move(*step);
  is_authorizing_ = true;
}

void OpenFlow::on_authorized(Result<Grant> grant) {
  step_.release();
  is_authorizing_ = false;
  if (is_orphan()) return over();
  on_decided(grant);
}

void OpenFlow::on_decided(const Result<Grant>& grant) {
  if (!grant) return refuse(authorization_failure(grant.error().code));
  open_at_agent(*grant);
}

void OpenFlow::open_at_agent(const Grant& grant) {
  RegisteredLink* link = parts_.registry.select(grant.agent_id, is_strict_ ? TMESH_CAP_OPEN_RESULT : 0);
  if (link == nullptr && is_strict_ && parts_.registry.select(grant.agent_id, 0) != nullptr) {
    parts_.owner.on_capability_gap();
    return refuse(tmesh_open_refuse(TMESH_STAGE_RELAY, TMESH_OPEN_UNSUPPORTED_CAPABILITY, true));
  }
  if (link == nullptr)
    return refuse(tmesh_open_refuse(TMESH_STAGE_SELECTION, TMESH_OPEN_AGENT_OFFLINE, true));
  auto slot = parts_.slots.claim(grant.token_id, grant.agent_id);
  if (!slot) return refuse_full();

  if (!take_target(grant.target)) {
    return refuse(tmesh_open_refuse(TMESH_STAGE_PROTOCOL, TMESH_OPEN_INTERNAL_ERROR, false));
  }
  tmesh_mux* const mux = link->mux();
  tmesh_open_params params{};
  params.open = open_.get();
  params.is_strict = is_strict_;
  params.window_bytes = mux->config.has_flow_control ? mux->config.initial_window_bytes : 0;
  tmesh_status why = tmesh_ok();
  tmesh_stream* const agent_side = tmesh_mux_open(mux, &params, &why);
  if (agent_side == nullptr) return refuse(link_failure(static_cast<tmesh_code>(why.code)));
  open_.reset();
  link_number_ = link->link_number;
  opened_us_ = parts_.timers.now_us();
  relay_.emplace_back(client_side_, agent_side, std::move(*slot), client_key_, ran_us_,
                      StreamRelay::Done::bind<&OpenFlow::on_relay_broken>(this));
  // From before the agent hears of it: rights may move while it dials.
  if (parts_.revocation != nullptr) parts_.revocation->watch(relay_.front(), grant);
  tmesh_stream_attach(agent_side, this, &on_agent_event);
  // Without OPEN_RESULT nothing more will come: the stream counts as open (legacy).
  if (!is_strict_) return on_agent_answer(0);
  relay_.front().start();
}

// The agent dials what was authorised, not what was sent (they differ in spelling only),
// and hears nothing that only servers may say to each other.
bool OpenFlow::take_target(const Target& target) {
  if (target.host.size() >= sizeof open_->target_host) return false;
  std::memset(open_->target_host, 0, sizeof open_->target_host);
  std::memcpy(open_->target_host, target.host.data(), target.host.size());
  open_->has_relay = false;
  open_->relay = {};
  return true;
}

void OpenFlow::on_agent_answer(unsigned events) {
  client_side_ = nullptr;
  parts_.owner.on_opened(relay_, events);
  over();
}

// Not allowed any more; or no block could be had for what waited: early data that cannot
// move must not wait for ever.
void OpenFlow::on_relay_broken(StreamRelay&, tmesh_status why) {
  if (why.code != TMESH_E_POLICY) return refuse_full();
  refuse(authorization_failure(TMESH_E_POLICY));
}

// By value: the result may lie in the stream that goes here.
void OpenFlow::refuse(tmesh_open_result result) {
  if (result.code == TMESH_OPEN_QUEUE_FULL) parts_.owner.on_capacity_refusal();
  tmesh_stream_answer(client_side_, &result);
  over();
}

void OpenFlow::over() {
  parts_.owner.on_flow_over(*this);
}

void OpenFlow::note(AgentRegistry::OpenEnd end) {
  parts_.registry.note_open(link_number_, opened_us_, end);
}

void OpenFlow::on_deadline() {
  if (!relay_.empty()) {
    note(AgentRegistry::OpenEnd::silent);
    return refuse(tmesh_open_refuse(TMESH_STAGE_CONNECT, TMESH_OPEN_TIMEOUT, true));
  }
  const auto timeout = tmesh_open_refuse(is_authorizing_ ? TMESH_STAGE_AUTHORIZATION : TMESH_STAGE_QUEUE,
                                         TMESH_OPEN_TIMEOUT, true);
  tmesh_stream_answer(client_side_, &timeout);
  tmesh_stream_release(std::exchange(client_side_, nullptr));
  if (!is_authorizing_) over();
}

void OpenFlow::on_client_event(void* user, tmesh_stream* stream, unsigned events) {
  auto* self = static_cast<OpenFlow*>(user);
  const bool has_relay = !self->relay_.empty();
  if ((events & TMESH_STREAM_EV_OVER) == 0) {
    // Before there is a relay, a client's bytes wait in its stream (requirement C9).
    if (has_relay) self->relay_.front().client_event(events);
    return;
  }
  self->deadline_.cancel();
  if (self->is_running() && stream->over.scope == TMESH_SCOPE_STREAM &&
      self->parts_.timers.now_us() - self->ran_us_ < CancelGuard::kQuickUs)
    self->parts_.owner.on_cancelled(self->client_key_);
  if (!has_relay) tmesh_stream_release(std::exchange(self->client_side_, nullptr));
  if (!self->is_authorizing_) self->over();
}

void OpenFlow::on_agent_event(void* user, tmesh_stream* stream, unsigned events) {
  auto* self = static_cast<OpenFlow*>(user);
  const bool is_answered = (events & TMESH_STREAM_EV_RESULT) != 0;
  if (is_answered) {
    const bool is_full = stream->result.code == TMESH_OPEN_QUEUE_FULL;
    self->note(is_full ? AgentRegistry::OpenEnd::full : AgentRegistry::OpenEnd::answered);
  }
  if (is_answered && !stream->result.accepted) return self->refuse(stream->result);
  if ((events & TMESH_STREAM_EV_OVER) != 0) {
    const bool is_link_gone = stream->over.scope == TMESH_SCOPE_SESSION;
    if (!is_link_gone && !is_answered) self->note(AgentRegistry::OpenEnd::broken);
    return self->refuse(is_link_gone
                            ? tmesh_open_refuse(TMESH_STAGE_SELECTION, TMESH_OPEN_AGENT_OFFLINE, true)
                            : tmesh_open_refuse(TMESH_STAGE_RELAY, TMESH_OPEN_INTERNAL_ERROR, true));
  }
  if (is_answered) return self->on_agent_answer(events);
  self->relay_.front().agent_event(events);
}

}  // namespace tmesh::server
