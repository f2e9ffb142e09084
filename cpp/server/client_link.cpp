#include "cpp/server/client_link.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/proto/metadata.h"
#include "cpp/base/log.hpp"
#include "cpp/base/random.hpp"
#include "cpp/server/link_config.hpp"

namespace tmesh::server {
namespace {

// A deployed V9 client fails its user's write when more than 256 KiB of an upload are not
// credited, so it gets its credit in eighths of that and not in halves (LESSONS Z5).
constexpr uint32_t kPromptThresholdBytes = TMESH_WINDOW_INITIAL_BYTES / 8;

}  // namespace

ClientLink::ClientLink(net::Loop& loop, const config::ServerConfig& config, Identity identity, uint64_t id,
                       tmesh_subprotocol subprotocol, ClientLinkOwner& owner)
    : loop_(loop),
      config_(config),
      identity_(std::move(identity)),
      id_(id),
      subprotocol_(subprotocol),
      owner_(owner),
      connection_id_("client_" + random_hex(16)) {}

ClientLink::~ClientLink() = default;

Result<void> ClientLink::start(net::Transport transport, std::span<const uint8_t> early) {
  tmesh_mux_config mux = link_mux_config(config_, false);
  mux.has_open_result = tmesh_subprotocol_is_strict(subprotocol_);
  mux.has_flow_control = tmesh_subprotocol_has_windows(subprotocol_);
  mux.resets_unknown_data = true;
  mux.window_threshold_bytes = std::min(mux.window_threshold_bytes, kPromptThresholdBytes);
  auto session =
      session::Session::open(loop_, std::move(transport), false, mux, session::kServerLife, *this, early);
  if (!session) return std::unexpected(session.error());
  session_ = std::move(*session);
  log::info("client_link_up", {{"link", id_},
                               {"open_mode", mux.has_open_result ? "strict" : "legacy"},
                               {"sub_protocol", tmesh_subprotocol_name(subprotocol_)}});
  return {};
}

void ClientLink::on_revoked() {
  log::warn("client_link_revoked", {{"link", id_}});
  session_->fail(tmesh_err_session(TMESH_E_POLICY));
}

void ClientLink::on_open(session::Session&, tmesh_stream* stream, const tmesh_open_stream& open) {
  expect_hello(false);
  owner_.on_client_open(*this, stream, open);
}

// The first frame of a client under the `.metadata` sub-protocol is its hello. One that
// begins otherwise is told so, once, and stays (WIRE 1.6.6).
bool ClientLink::expect_hello(bool is_hello) {
  if (!std::exchange(is_first_frame_, false) || is_hello) return true;
  if (!tmesh_subprotocol_has_hello(subprotocol_)) return true;
  send_ack(0, "client_hello", "invalid_frame");
  return false;
}

tmesh_status ClientLink::on_control(session::Session&, const tmesh_frame_header& header,
                                    std::span<const uint8_t> payload) {
  const bool is_hello = header.type == TMESH_FRAME_CLIENT_HELLO;
  if (!expect_hello(is_hello)) return tmesh_ok();
  if (!is_hello && header.type != TMESH_FRAME_CLIENT_METADATA_UPDATE) {
    return tmesh_ok();  // agents' and trace frames mean nothing here
  }
  // Types 16-18 exist only where the sub-protocol says so; a peer that sends them
  // elsewhere gets no answer it could not read.
  if (!tmesh_subprotocol_has_hello(subprotocol_)) return tmesh_ok();
  auto metadata = std::make_unique<tmesh_client_metadata>();
  std::memset(metadata.get(), 0, sizeof *metadata);
  tmesh_metadata_error why{};
  if (!tmesh_is_ok(tmesh_client_metadata_decode(metadata.get(), payload.data(), payload.size()))) {
    send_ack(0, "client_metadata", "invalid_payload");
    return tmesh_ok();
  }
  if (!tmesh_client_metadata_check(metadata.get(), &why)) {
    send_ack(metadata->revision, why.name, why.code);
  } else {
    instance_id_ = metadata->instance_id;
    if (is_hello && !std::exchange(has_hello_, true)) {
      capabilities_ =
          tmesh_capability_intersect(metadata->capabilities, enabled_capabilities(config_.capabilities));
      send_ack(metadata->revision, nullptr, nullptr);
      use_extensions(is_peer_ours(metadata->capabilities));
    } else {
      send_ack(metadata->revision, nullptr, nullptr);
    }
  }
  tmesh_client_metadata_free(metadata.get());
  return tmesh_ok();
}

void ClientLink::use_extensions(bool peer_is_ours) {
  session_->use_extensions(capabilities_, peer_is_ours);
  if (!peer_is_ours) return;
  // A program of ours waits for its credit as long as it must.
  session_->mux()->config.window_threshold_bytes = link_mux_config(config_, false).window_threshold_bytes;
}

void ClientLink::send_ack(uint64_t revision, const char* error_name, const char* error_code) {
  auto ack = std::make_unique<tmesh_client_metadata_ack>();
  std::memset(ack.get(), 0, sizeof *ack);
  ack->client_instance_id = instance_id_.c_str();
  ack->instance_id = instance_id_.c_str();
  ack->connection_id = connection_id_.c_str();
  ack->revision = revision;
  ack->is_accepted = error_code == nullptr;
  ack->capabilities = error_code == nullptr ? capabilities_ : 0;
  if (error_code != nullptr) {
    ack->errors[0] = {error_name, error_code, ""};
    ack->error_count = 1;
  }
  std::vector<char> text(TMESH_METADATA_MAX_BYTES);
  std::size_t len = 0;
  if (!tmesh_is_ok(tmesh_client_metadata_ack_encode(ack.get(), text.data(), text.size(), &len))) {
    return session_->fail(tmesh_err_session(TMESH_E_INVALID));
  }
  session_->send(TMESH_FRAME_CLIENT_METADATA_ACK, {reinterpret_cast<const uint8_t*>(text.data()), len});
}

void ClientLink::on_goaway(session::Session&) {}

void ClientLink::on_down(session::Session&, tmesh_status why) {
  log::info("client_link_down", {{"link", id_}, {"reason", tmesh_code_name(why.code)}});
  owner_.on_client_link_down(*this, why);
}

}  // namespace tmesh::server
