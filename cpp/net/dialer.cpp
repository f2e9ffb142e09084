#include "cpp/net/dialer.hpp"

#include <sys/socket.h>

#include <string>
#include <unordered_map>

#include "core/loop/dial.h"

namespace tmesh::net {

namespace {
struct Node {
  Dialer* owner = nullptr;
  uint64_t id = 0;
  tmesh_dial* dial = nullptr;
  Delegate<bool(const IpAddress&, bool)> filter;
  Delegate<void(DialResult)> done;
};

uint32_t milliseconds(uint64_t us) {
  uint64_t ms = us / 1000 + (us % 1000 != 0 ? 1 : 0);
  return ms > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(ms);
}
}  // namespace

struct Dialer::Impl {
  Loop* loop = nullptr;
  tmesh_resolver* resolver = nullptr;
  uint64_t next_id = 1;
  std::unordered_map<uint64_t, std::unique_ptr<Node>> dials;
};

struct DialerGlue {
  static bool filter(void* ctx, const tmesh_address* address, bool is_name) {
    auto* node = static_cast<Node*>(ctx);
    return node->filter(ip_from_bytes(address->bytes, address->family == AF_INET), is_name);
  }
  static void done(void* ctx, const tmesh_dial_result* result) {
    auto* node = static_cast<Node*>(ctx);
    DialResult out;
    out.status = result->status;
    out.failed_in_dns = result->phase == TMESH_DIAL_DNS;
    out.fd = result->fd;
    out.dns_us = result->dns_us;
    out.connect_us = result->connect_us;
    Delegate<void(DialResult)> deliver = node->done;
    node->owner->impl_->dials.erase(node->id);
    deliver(out);
  }
};

Result<std::unique_ptr<Dialer>> Dialer::create(Loop& loop, const char* servers) {
  return create_with(loop, tmesh_resolver_new(loop.raw(), servers));
}

Result<std::unique_ptr<Dialer>> Dialer::create_system(Loop& loop) {
  return create_with(loop, tmesh_resolver_new_system(loop.raw()));
}

Result<std::unique_ptr<Dialer>> Dialer::create_with(Loop& loop, tmesh_resolver* resolver) {
  auto impl = std::make_unique<Impl>();
  impl->loop = &loop;
  impl->resolver = resolver;
  if (resolver == nullptr) return fail(TMESH_E_NO_MEMORY, "cannot create the resolver");
  return std::unique_ptr<Dialer>(new Dialer(std::move(impl)));
}

Dialer::Dialer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Dialer::~Dialer() {
  for (auto& [id, node] : impl_->dials) tmesh_dial_cancel(node->dial);
  tmesh_resolver_free(impl_->resolver);
}

Result<Ticket> Dialer::dial(const DialRequest& request, Delegate<void(DialResult)> done) {
  auto node = std::make_unique<Node>();
  node->owner = this;
  node->id = impl_->next_id++;
  node->filter = request.filter;
  node->done = done;
  std::string host(request.host);
  tmesh_dial_params params{};
  params.host = host.c_str();
  params.port = request.port;
  params.is_datagram = request.is_datagram;
  params.timeout_ms = milliseconds(request.timeout_us);
  params.connect_timeout_ms = milliseconds(request.connect_timeout_us);
  params.filter = request.filter ? &DialerGlue::filter : nullptr;
  params.ctx = node.get();
  params.done = &DialerGlue::done;
  if (host.find('\0') != std::string::npos) {
    return fail(TMESH_E_DNS, "not a host name");
  }
  tmesh_status st = tmesh_dial_start(impl_->loop->raw(), impl_->resolver, &params, &node->dial);
  if (!tmesh_is_ok(st)) return fail(static_cast<tmesh_code>(st.code), "the dial was refused");
  uint64_t id = node->id;
  impl_->dials.emplace(id, std::move(node));
  return Ticket(this, id, &Dialer::cancel);
}

std::size_t Dialer::active_count() const {
  return impl_->dials.size();
}

void Dialer::cancel(void* owner, uint64_t id) {
  auto* self = static_cast<Dialer*>(owner);
  auto it = self->impl_->dials.find(id);
  if (it == self->impl_->dials.end()) return;
  tmesh_dial_cancel(it->second->dial);
  self->impl_->dials.erase(it);
}

}  // namespace tmesh::net
