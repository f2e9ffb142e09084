#include "cpp/client/socks5_entry.hpp"

#include <unistd.h>

#include <utility>

#include "cpp/base/log.hpp"
#include "cpp/client/socks5_local.hpp"

namespace tmesh::client {

Socks5Entry::Socks5Entry(net::Loop& loop, StreamOpener& opener, Socks5EntryOptions options, Broken broken)
    : loop_(loop), opener_(opener), options_(std::move(options)), broken_(broken) {}

Socks5Entry::~Socks5Entry() = default;

Result<void> Socks5Entry::listen(const std::string& host, uint16_t port) {
  net::ListenerEvents events;
  events.on_accept = Delegate<void(int, const net::Peer&)>::bind<&Socks5Entry::on_accept>(this);
  events.on_broken = Delegate<void(tmesh_status)>::bind<&Socks5Entry::on_broken>(this);
  auto listener = net::Listener::open(loop_, host, port, events);
  if (!listener) return std::unexpected(listener.error());
  listener_ = std::move(*listener);
  return {};
}

void Socks5Entry::stop_listening() {
  listener_.close();
  locals_.remove_if([](const auto& local) { return local->is_in_handshake(); });
}

void Socks5Entry::on_accept(int fd, const net::Peer&) {
  if (locals_.size() >= kLocalsMax) {
    close(fd);
    // Once per time of need: whoever fills the entry must not fill the log too.
    if (!std::exchange(is_full_, true)) {
      log::warn("entry_full", {{"entry", options_.name}, {"locals", locals_.size()}});
    }
    return;
  }
  locals_.push_back(std::make_unique<Socks5Local>(*this));
  Socks5Local& local = *locals_.back();
  local.place = std::prev(locals_.end());
  if (!local.start(fd)) locals_.pop_back();
}

void Socks5Entry::on_broken(tmesh_status why) {
  log::error("entry_broken", {{"entry", options_.name}, {"reason", tmesh_code_name(why.code)}});
  broken_(*this);
}

void Socks5Entry::remove(Socks5Local& local) {
  locals_.erase(local.place);
  if (locals_.size() < kLocalsMax / 2) is_full_ = false;
}

}  // namespace tmesh::client
