#include "cpp/server/agent_link.hpp"

#include <cstring>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "cpp/base/log.hpp"
#include "cpp/server/link_config.hpp"

namespace tmesh::server {
namespace {

struct DecodedMetadata {
  std::unique_ptr<tmesh_agent_metadata> value = std::make_unique<tmesh_agent_metadata>();
  DecodedMetadata() { std::memset(value.get(), 0, sizeof *value); }
  ~DecodedMetadata() { tmesh_agent_metadata_free(value.get()); }
  DecodedMetadata(const DecodedMetadata&) = delete;
  DecodedMetadata& operator=(const DecodedMetadata&) = delete;
};

constexpr tmesh_metadata_error kInvalidPayload{"agent_metadata", "invalid_payload",
                                               "not a metadata document"};
constexpr tmesh_metadata_error kIdentityMismatch{"agent_id", "identity_mismatch",
                                                 "not the agent of this token"};
constexpr tmesh_metadata_error kNodeMismatch{"node_id", "identity_mismatch", "changed within a session"};
constexpr tmesh_metadata_error kInstanceMismatch{"instance_id", "identity_mismatch",
                                                 "changed within a session"};
constexpr tmesh_metadata_error kStaleEpoch{"epoch", "stale_epoch", "a newer link has this connection id"};
constexpr tmesh_metadata_error kStaleRevision{"revision", "stale_revision", "older than the last one"};
constexpr tmesh_metadata_error kRevisionConflict{"revision", "revision_conflict",
                                                 "same revision, other content"};
constexpr tmesh_metadata_error kTooMany{"connection_id", "invalid_metadata", "the agent has too many links"};

// Deployed servers take the node id for an agent that does not say its instance.
const char* instance_of(const tmesh_agent_metadata& metadata) {
  return metadata.instance_id[0] != '\0' ? metadata.instance_id : metadata.node_id;
}

}  // namespace

AgentLink::AgentLink(net::Loop& loop, Timers& timers, AgentRegistry& registry,
                     const config::ServerConfig& config, Identity identity, AgentLinkOwner& owner)
    : loop_(loop),
      timers_(timers),
      registry_(registry),
      config_(config),
      identity_(std::move(identity)),
      owner_(owner) {}

AgentLink::~AgentLink() {
  if (!is_registered_) return;
  registry_.remove(*this);
  session_->goaway();  // the last frame, if the link is up and nobody was told before
}

Result<void> AgentLink::start(net::Transport transport, std::span<const uint8_t> early) {
  tmesh_mux_config mux = link_mux_config(config_, true);
  mux.has_open_result = false;  // until the hello says so
  mux.has_flow_control = false;
  mux.resets_unknown_data = false;  // deployed servers ignore it on this side (WIRE 1.11)
  auto session =
      session::Session::open(loop_, std::move(transport), false, mux, session::kServerLife, *this, early);
  if (!session) return std::unexpected(session.error());
  session_ = std::move(*session);
  hello_deadline_ =
      timers_.after(kHelloDeadline_us, Delegate<void()>::bind<&AgentLink::on_hello_deadline>(this));
  return {};
}

void AgentLink::on_hello_deadline() {
  hello_deadline_.release();
  if (!is_hello_refused_) log::warn("agent_hello_missing", {{"agent", identity_.agent_id}});
  session_->fail(tmesh_err_session(TMESH_E_TIMEOUT));
}

void AgentLink::begin_drain() {
  if (is_ours_) session_->goaway();
}

bool AgentLink::is_suspect() const {
  const uint64_t now_us = timers_.now_us();
  const uint64_t heard_us = session_->last_read_us();
  if (now_us >= heard_us + kSilent_us) return true;
  return probed_at_us_ > heard_us && now_us >= probed_at_us_ + kProbeAnswer_us;
}

void AgentLink::probe() {
  // A second probe must not give a silent link more time.
  if (probed_at_us_ > session_->last_read_us()) return;
  probed_at_us_ = timers_.now_us();
  session_->probe();
}

void AgentLink::on_replaced() {
  is_registered_ = false;  // the registry already holds the newer one
  session_->fail(tmesh_err_session(TMESH_E_CANCELLED));
}

void AgentLink::end() {
  session_->fail(tmesh_err_session(TMESH_E_CANCELLED));
}

void AgentLink::on_revoked() {
  log::warn("agent_link_revoked", {{"agent", identity_.agent_id}});
  session_->fail(tmesh_err_session(TMESH_E_POLICY));
}

void AgentLink::on_open(session::Session&, tmesh_stream* stream, const tmesh_open_stream&) {
  // Unreachable: the mux ends a link whose agent sends OPEN_STREAM.
  tmesh_stream_reset(stream);
  tmesh_stream_release(stream);
}

tmesh_status AgentLink::on_control(session::Session&, const tmesh_frame_header& header,
                                   std::span<const uint8_t> payload) {
  const bool is_hello = header.type == TMESH_FRAME_AGENT_HELLO;
  const bool is_update = header.type == TMESH_FRAME_AGENT_METADATA_UPDATE;
  if (!is_registered_ && !is_hello) return tmesh_err_session(TMESH_E_STATE);
  if (!is_hello && !is_update) return tmesh_ok();
  DecodedMetadata decoded;
  tmesh_metadata_error why = kInvalidPayload;
  if (!tmesh_is_ok(tmesh_agent_metadata_decode(decoded.value.get(), payload.data(), payload.size()))) {
    send_ack(nullptr, false, &why);
    return tmesh_ok();
  }
  payload_hash_ =
      std::hash<std::string_view>{}({reinterpret_cast<const char*>(payload.data()), payload.size()});
  if (!tmesh_agent_metadata_check(decoded.value.get(), &why)) {
    send_ack(decoded.value.get(), false, &why);
    return tmesh_ok();
  }
  if (!is_registered_) return on_hello(*decoded.value);
  on_update(*decoded.value);
  return tmesh_ok();
}

tmesh_status AgentLink::on_hello(const tmesh_agent_metadata& hello) {
  if (identity_.agent_id != hello.agent_id) {
    // A wrong identity ends the session (requirement C6): the deadline does it, so that
    // the answer still leaves.
    if (!std::exchange(is_hello_refused_, true)) {
      log::warn("agent_identity_mismatch", {{"agent", identity_.agent_id}});
    }
    send_ack(&hello, false, &kIdentityMismatch);
    return tmesh_ok();
  }
  agent_id = hello.agent_id;
  // Deployed agents may leave it out; "legacy" is what their servers take then.
  connection_id = hello.connection_id[0] != '\0' ? hello.connection_id : "legacy";
  epoch = hello.epoch;
  const auto registration = registry_.add(*this);
  if (registration != AgentRegistry::Registration::registered) {
    const bool is_stale = registration == AgentRegistry::Registration::stale_epoch;
    if (!std::exchange(is_hello_refused_, true)) {
      log::warn("agent_link_refused",
                {{"agent", agent_id}, {"reason", is_stale ? "stale_epoch" : "capacity"}});
    }
    send_ack(&hello, false, is_stale ? &kStaleEpoch : &kTooMany);
    return tmesh_ok();
  }
  hello_deadline_.cancel();
  is_registered_ = true;
  // By what it announced, not by what this server has switched on.
  is_ours_ = is_peer_ours(hello.capabilities);
  node_id_ = hello.node_id;
  instance_id_ = instance_of(hello);
  revision_ = hello.revision;
  revision_hash_ = payload_hash_;
  // Never the protocol names that our agents announce: an acknowledgement that names them
  // is the echo of a deployed server, which knows none of the extensions (WIRE 1.6.4).
  capabilities_ = tmesh_capability_intersect(hello.capabilities, enabled_capabilities(config_.capabilities));
  tmesh_mux_config& mux = session_->mux()->config;
  mux.has_open_result = (capabilities_ & TMESH_CAP_OPEN_RESULT) != 0;
  mux.has_flow_control =
      config_.capabilities.flow_control && tmesh_capability_agent_has_windows(capabilities_);
  owner_.on_agent_link_up(*this, hello);
  send_ack(&hello, false, nullptr);
  session_->use_extensions(capabilities_, is_ours_);
  log::info("agent_link_up", {{"agent", agent_id},
                              {"open_mode", mux.has_open_result ? "strict" : "legacy"},
                              {"links", registry_.links_count(agent_id)}});
  return tmesh_ok();
}

void AgentLink::on_update(const tmesh_agent_metadata& update) {
  if (agent_id != update.agent_id) return send_ack(&update, false, &kIdentityMismatch);
  if (node_id_ != update.node_id) return send_ack(&update, false, &kNodeMismatch);
  if (instance_id_ != instance_of(update)) return send_ack(&update, false, &kInstanceMismatch);
  if (epoch != update.epoch) return send_ack(&update, false, &kStaleEpoch);
  if (update.revision < revision_) return send_ack(&update, false, &kStaleRevision);
  if (update.revision == revision_) {
    const bool is_same = payload_hash_ == revision_hash_;
    return send_ack(&update, is_same, is_same ? nullptr : &kRevisionConflict);
  }
  revision_ = update.revision;
  revision_hash_ = payload_hash_;
  owner_.on_agent_metadata(*this, update);
  send_ack(&update, false, nullptr);
}

void AgentLink::send_ack(const tmesh_agent_metadata* about, bool is_idempotent,
                         const tmesh_metadata_error* error) {
  auto ack = std::make_unique<tmesh_agent_metadata_ack>();
  std::memset(ack.get(), 0, sizeof *ack);
  ack->agent_id = identity_.agent_id.c_str();
  if (about != nullptr) {
    ack->epoch = about->epoch;
    ack->revision = about->revision;
  }
  ack->is_accepted = error == nullptr;
  ack->is_idempotent = is_idempotent;
  ack->has_connection_pool = true;
  ack->connections_per_agent_max = static_cast<uint32_t>(registry_.max_links_per_agent());
  ack->capabilities = error == nullptr ? capabilities_ : 0;
  if (error != nullptr) {
    ack->errors[0] = *error;
    ack->error_count = 1;
  }
  std::vector<char> text(TMESH_METADATA_MAX_BYTES);
  std::size_t len = 0;
  if (!tmesh_is_ok(tmesh_agent_metadata_ack_encode(ack.get(), text.data(), text.size(), &len))) {
    return session_->fail(tmesh_err_session(TMESH_E_INVALID));
  }
  session_->send(TMESH_FRAME_AGENT_METADATA_ACK, {reinterpret_cast<const uint8_t*>(text.data()), len});
}

void AgentLink::on_goaway(session::Session&) {}  // the session takes no opens from here on

void AgentLink::on_down(session::Session&, tmesh_status why) {
  log::info("agent_link_down", {{"agent", identity_.agent_id}, {"reason", tmesh_code_name(why.code)}});
  owner_.on_agent_link_down(*this, why);
}

}  // namespace tmesh::server
