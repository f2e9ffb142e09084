// The entries that speak HTTP: a proxy (protocol http-proxy), and a gateway to one target
// (protocol http). What they do with messages is cpp/http/proxy's business; each accepted
// socket is one HttpLocal.
#pragma once

#include <memory>

#include "core/base/pool_charge.h"
#include "cpp/client/leaving_streams.hpp"
#include "cpp/client/stream_entry.hpp"
#include "cpp/http/proxy/rules.hpp"

namespace tmesh::client {

class HttpEntry final : public StreamEntry {
 public:
  HttpEntry(const EntryDeps& deps, const config::Tunnel& tunnel, Broken broken);
  ~HttpEntry() override { close(); }

  // Exchanges that run go on; each is the last of its connection.
  void stop_listening() override;

  // For its locals.
  const http::ProxyRules& rules() const { return rules_; }
  bool is_stopping() const { return is_stopping_; }
  // What an open for this place says; views into the entry and `place`.
  OpenRequest request_for(const HostPort& place) const;
  LeavingStreams& leaving() { return leaving_; }
  // Of heads under way.
  tmesh_pool_charge& heads() { return heads_; }

 private:
  std::unique_ptr<Local> make_local() override;

  const http::ProxyRules rules_;
  const std::string target_authority_;
  LeavingStreams leaving_;
  tmesh_pool_charge heads_{};
  bool is_stopping_ = false;
};

}  // namespace tmesh::client
