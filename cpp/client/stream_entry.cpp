#include "cpp/client/stream_entry.hpp"

#include <unistd.h>

#include <utility>

#include "cpp/base/log.hpp"

namespace tmesh::client {

OpeningSettings opening_settings_of(const EntryDeps& deps, const config::Tunnel& tunnel) {
  OpeningSettings out;
  out.entry = tunnel.name;
  out.agent_id = tunnel.agent_id;
  out.protocol_name = config::protocol_name(tunnel.protocol);
  out.auth_url = tunnel.auth_url;
  out.open_timeout_us = deps.open_timeout_us;
  out.link_wait_us = deps.link_wait_us;
  return out;
}

StreamEntry::StreamEntry(const EntryDeps& deps, const config::Tunnel& tunnel, Broken broken)
    : deps_(deps), tunnel_(tunnel), opening_(opening_settings_of(deps, tunnel)), broken_(broken) {}

StreamEntry::~StreamEntry() = default;

void StreamEntry::close() {
  listener_.close();
  locals_.clear();
}

Result<void> StreamEntry::listen() {
  net::ListenerEvents events;
  events.on_accept = Delegate<void(int, const net::Peer&)>::bind<&StreamEntry::on_accept>(this);
  events.on_broken = Delegate<void(tmesh_status)>::bind<&StreamEntry::on_broken>(this);
  auto listener =
      tunnel_.socket_path.empty()
          ? net::Listener::open(deps_.loop, tunnel_.listen.host, tunnel_.listen.port, events)
          : net::Listener::open_unix(
                deps_.loop, {tunnel_.socket_path, tunnel_.socket_mode, tunnel_.socket_owner}, events);
  if (!listener) return std::unexpected(listener.error());
  listener_ = std::move(*listener);
  listener_.prepare_tcp();
  return {};
}

void StreamEntry::stop_listening() {
  listener_.close();
  locals_.remove_if([](const auto& local) { return local->is_idle(); });
}

void StreamEntry::take(int fd) {
  stats_.accepted_count++;
  if (locals_.size() >= kLocalsMax) {
    stats_.over_limit_count++;
    ::close(fd);
    // Once per time of need: whoever fills the entry must not fill the log too.
    if (!std::exchange(is_full_, true)) {
      log::warn("entry_full", {{"entry", tunnel_.name}, {"locals", locals_.size()}});
    }
    return;
  }
  locals_.push_back(make_local());
  Local& local = *locals_.back();
  local.place = std::prev(locals_.end());
  local.start(fd);
}

void StreamEntry::on_broken(tmesh_status why) {
  log::error("entry_broken", {{"entry", tunnel_.name}, {"reason", tmesh_code_name(why.code)}});
  broken_(*this);
}

void StreamEntry::log_flow(const session::TcpFlow& flow, tmesh_status why) const {
  log::debug("flow_done", {{"entry", tunnel_.name},
                           {"reason", tmesh_code_name(why.code)},
                           {"sent_bytes", flow.sent_bytes()},
                           {"received_bytes", flow.received_bytes()}});
}

void StreamEntry::remove(Local& local) {
  locals_.erase(local.place);
  if (locals_.size() < kLocalsMax / 2) is_full_ = false;
}

}  // namespace tmesh::client
