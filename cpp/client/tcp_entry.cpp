#include "cpp/client/tcp_entry.hpp"

#include <optional>
#include <utility>

#include "core/base/chunkq.h"
#include "core/proto/limits.h"
#include "cpp/net/tcp.hpp"
#include "cpp/session/tcp_flow.hpp"

namespace tmesh::client {
namespace {

// Behind the early bytes, which the Opening holds, this much waits for the answer.
constexpr std::size_t kOpeningReadMax_bytes = TMESH_EARLY_DATA_MAX_BYTES;

// One local connection: an open, then a flow.
class TcpLocal final : public Local, private net::TcpHandler {
 public:
  explicit TcpLocal(TcpEntry& entry) : entry_(entry) {}

  void start(int fd) override {
    tcp_ = net::Tcp::open_prepared(entry_.loop(), fd, *this);
    tcp_.read(kOpeningReadMax_bytes);
    OpenRequest request;
    request.host = entry_.tunnel().target_host;
    request.port = entry_.tunnel().target_port;
    opening_ = entry_.make_opening(Opening::Done::bind<&TcpLocal::on_opened>(this));
    opening_->start(request);  // a refusal at once has destroyed this object
  }
  // Its connection is its question.
  bool is_idle() const override { return false; }

 private:
  void on_readable() override {
    tmesh_span span{};
    while (opening_->early_room() > 0 && tmesh_chunkq_peek(tcp_.in(), &span, 1) > 0) {
      tmesh_chunkq_consume(tcp_.in(), opening_->send_early({span.data, span.len_bytes}));
    }
  }
  // Not the end of the open: the flow finds it in the socket.
  void on_eof() override {}
  void on_written(std::size_t, bool) override {}
  void on_broken(tmesh_status why) override { entry_.end(*this, why, {}); }

  void on_opened(const tmesh_open_result& result) {
    entry_.count(result);
    if (!result.accepted) return entry_.end(*this, tmesh_err_stream(TMESH_E_REFUSED), result);
    flow_.emplace(std::move(tcp_), opening_->take(),
                  Delegate<void(tmesh_status)>::bind<&TcpLocal::on_flow_done>(this));
    opening_.reset();
    flow_->start();
  }

  void on_flow_done(tmesh_status why) {
    entry_.log_flow(*flow_, why);
    entry_.end(*this, why, tmesh_open_accept());
  }

  TcpEntry& entry_;
  net::Tcp tcp_;
  std::unique_ptr<Opening> opening_;  // until the stream is there
  std::optional<session::TcpFlow> flow_;
};

}  // namespace

std::unique_ptr<Local> TcpEntry::make_local() {
  return std::make_unique<TcpLocal>(*this);
}

void TcpEntry::end(Local& local, tmesh_status why, const tmesh_open_result& answer) {
  on_end(why, answer);
  remove(local);
}

}  // namespace tmesh::client
