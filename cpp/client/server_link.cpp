#include "cpp/client/server_link.hpp"

#include <cstring>
#include <utility>
#include <vector>

#include "core/proto/metadata.h"
#include "cpp/base/log.hpp"
#include "cpp/session/metadata_items.hpp"

namespace tmesh::client {
namespace {

// Deployed servers end a link after 65,536 opens; change well before that: at ten thousand
// opens a second the rest lasts one and a half for the successor to come up.
constexpr uint32_t kRotateAtStreamId = 50'000;
// A link of one agent; the server has limits of its own.
constexpr uint32_t kStreamsMax = 16'384;

uint32_t offered_capabilities(const config::Capabilities& c) {
  return tmesh_capability_enabled(c.open_result, c.flow_control, c.fair_writer, c.early_data,
                                  c.window_growth);
}

template <std::size_t N>
bool copy_text(char (&to)[N], std::string_view from) {
  if (from.size() >= N) return false;
  from.copy(to, from.size());
  return true;
}

}  // namespace

ServerLink::ServerLink(net::Loop& loop, Dialer& dialer, const ClientIdentity& identity, std::string agent_id,
                       uint32_t number, Delegate<void()> on_change)
    : loop_(loop),
      identity_(identity),
      agent_id_(std::move(agent_id)),
      on_change_(on_change),
      slot_(loop, loop, dialer, identity.endpoint, true, offered_capabilities(identity.config.capabilities),
            number, *this) {}

tmesh_mux_config ServerLink::mux_config(tmesh_subprotocol subprotocol) {
  tmesh_mux_config mux{};
  mux.is_opener = true;
  mux.has_open_result = tmesh_subprotocol_is_strict(subprotocol);
  mux.has_flow_control = tmesh_subprotocol_has_windows(subprotocol);
  mux.initial_window_bytes = TMESH_WINDOW_INITIAL_BYTES;
  mux.window_threshold_bytes = TMESH_WINDOW_THRESHOLD_BYTES;
  mux.inbound_max_bytes = static_cast<uint32_t>(identity_.config.inbound_buffer_bytes);
  mux.outbound_max_bytes = TMESH_WINDOW_LEGACY_CAP_BYTES;
  mux.window_max_bytes = static_cast<uint32_t>(identity_.config.limits.max_window_bytes);
  mux.violations_max = static_cast<uint32_t>(identity_.config.limits.window_violations_count);
  mux.violations_period_us = identity_.config.limits.window_violations_interval_us;
  mux.streams_max = kStreamsMax;
  return mux;
}

void ServerLink::on_session(session::Session& session, tmesh_subprotocol subprotocol) {
  if (!tmesh_subprotocol_is_strict(subprotocol)) log::info("open_mode", {{"open_mode", "legacy"}});
  if (tmesh_subprotocol_has_hello(subprotocol)) send_hello(session);
  changed();
}

void ServerLink::on_session_over(session::Session& session) {
  if (silent_ == &session) silent_ = nullptr;
}

void ServerLink::drain() {
  is_draining_ = true;
  slot_.drain();
}

void ServerLink::resume() {
  is_draining_ = false;
  slot_.resume();
}

void ServerLink::note_silent(const session::Session& session) {
  silent_ = &session;
  silent_bytes_in_ = session.bytes_in();
}

bool ServerLink::is_silent() {
  const session::Session* const session = slot_.ready();
  return session != nullptr && session == silent_ && session->bytes_in() == silent_bytes_in_;
}

void ServerLink::send_hello(session::Session& session) {
  auto hello = std::make_unique<tmesh_client_metadata>();
  std::memset(hello.get(), 0, sizeof *hello);
  hello->instance_id = identity_.instance_id.c_str();
  hello->connection_slot = slot_.number();
  hello->version = TMESH_VERSION;
  hello->platform = "linux";
  hello->process_start_at = session::metadata_time(identity_.started_at_us);
  hello->reported_at = session::metadata_time(loop_.wall_us());
  hello->revision = ++hello_revision_;
  hello->capabilities = offered_capabilities(identity_.config.capabilities);
  hello->agent_ids[0] = agent_id_.c_str();
  hello->agent_id_count = 1;
  const auto items = session::collect_metadata_items(identity_.config.metadata);
  session::put_metadata(*hello, items);
  const std::vector<uint8_t> payload = session::encode_hello(*hello, &tmesh_client_metadata_encode);
  if (payload.empty()) return session.fail(tmesh_err_session(TMESH_E_INVALID));
  session.send(TMESH_FRAME_CLIENT_HELLO, payload);
}

void ServerLink::on_hello_ack(session::Session& session, std::span<const uint8_t> payload) {
  auto ack = std::make_unique<tmesh_client_metadata_ack>();
  std::memset(ack.get(), 0, sizeof *ack);
  if (!tmesh_is_ok(tmesh_client_metadata_ack_decode(ack.get(), payload.data(), payload.size()))) {
    log::warn("hello_ack_malformed", {{"slot", slot_.number()}});
    return;
  }
  hello_ = {loop_.now_us(), ack->is_accepted};
  if (!ack->is_accepted) {
    log::warn("hello_refused",
              {{"slot", slot_.number()}, {"code", ack->error_count > 0 ? ack->errors[0].code : "unknown"}});
  } else if (ack->capabilities != 0) {
    // Deployed servers do not know this member of the acknowledgement.
    const uint32_t offered = offered_capabilities(identity_.config.capabilities);
    session.use_extensions(tmesh_capability_intersect(ack->capabilities, offered), true);
  }
  tmesh_client_metadata_ack_free(ack.get());
}

void ServerLink::on_open(session::Session&, tmesh_stream* stream, const tmesh_open_stream&) {
  // Unreachable: a mux that opens treats the peer's OPEN_STREAM as a protocol error.
  tmesh_stream_reset(stream);
  tmesh_stream_release(stream);
}

tmesh_status ServerLink::on_control(session::Session& session, const tmesh_frame_header& header,
                                    std::span<const uint8_t> payload) {
  if (header.type == TMESH_FRAME_CLIENT_METADATA_ACK) on_hello_ack(session, payload);
  // Other frames of this family have no meaning for a client; deployed ones ignore them.
  return tmesh_ok();
}

Result<OpenedStream> ServerLink::open(const OpenRequest& request, bool allow_strict) {
  session::Session* const session = slot_.ready();
  if (session == nullptr) return fail(TMESH_E_CLOSED, "no link to the server");
  tmesh_open_stream open{};
  if (!copy_text(open.agent_id, agent_id_) || !copy_text(open.target_host, request.host) ||
      !copy_text(open.host_header, request.host_header) ||
      !copy_text(open.tls_server_name, request.tls_server_name)) {
    return fail(TMESH_E_INVALID, "a name is too long");
  }
  open.protocol = request.protocol;
  open.target_port = request.port;
  open.is_target_https = request.is_target_https;
  tmesh_mux* const mux = session->mux();
  // Better no new stream than the end of all that run.
  if (mux->next_id > TMESH_OPENS_PER_LINK_MAX)
    return fail(TMESH_E_LIMIT, "the link's stream ids are used up");
  tmesh_open_params params{};
  params.open = &open;
  // Datagrams: legacy and without windows, whatever the link can do (LESSONS Z1).
  const bool is_stream = request.protocol != TMESH_OPEN_UDP;
  params.is_strict = is_stream && allow_strict && mux->config.has_open_result;
  params.window_bytes = is_stream && mux->config.has_flow_control ? mux->config.initial_window_bytes : 0;
  tmesh_status why = tmesh_ok();
  tmesh_stream* const stream = tmesh_mux_open(mux, &params, &why);
  // STATE: the link has failed, and its end is about to be told.
  if (why.code == TMESH_E_STATE) return fail(TMESH_E_CLOSED, "the link is over");
  if (stream == nullptr) return fail(static_cast<tmesh_code>(why.code), "the link takes no further stream");
  if (params.is_strict) session->expect_answer();
  if (stream->id >= kRotateAtStreamId) slot_.rotate("ids");
  return OpenedStream{stream, params.is_strict};
}

}  // namespace tmesh::client
