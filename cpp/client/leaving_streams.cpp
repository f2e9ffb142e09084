#include "cpp/client/leaving_streams.hpp"

namespace tmesh::client {

LeavingStreams::~LeavingStreams() {
  for (Leaving& leaving : leaving_) tmesh_stream_release(leaving.stream);
}

void LeavingStreams::add(tmesh_stream* stream) {
  if (leaving_.size() == kMax) return tmesh_stream_release(stream);
  tmesh_stream_finish(stream);
  leaving_.push_back({this, stream, {}, {}});
  Leaving& leaving = leaving_.back();
  leaving.place = std::prev(leaving_.end());
  leaving.timeout = timers_.after(patience_us_, Delegate<void()>::bind<&Leaving::on_timeout>(&leaving));
  tmesh_stream_attach(stream, &leaving, &LeavingStreams::on_stream_event);
}

void LeavingStreams::on_stream_event(void* user, tmesh_stream* stream, unsigned events) {
  auto& leaving = *static_cast<Leaving*>(user);
  // Bytes now are nobody's, and would stop the end behind them.
  const bool is_over = (events & TMESH_STREAM_EV_OVER) != 0 || stream->in.len_bytes > 0;
  const bool is_ended = stream->in_eof && tmesh_stream_all_written(stream);
  if (is_over || is_ended) leaving.owner->remove(leaving);
}

void LeavingStreams::remove(Leaving& leaving) {
  tmesh_stream_release(leaving.stream);
  leaving_.erase(leaving.place);
}

}  // namespace tmesh::client
