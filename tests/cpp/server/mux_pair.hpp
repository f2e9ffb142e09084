// Two muxes joined by a lossless pipe of frames, without network or clock. A test steers
// one end by hand and gives the other to what it tests.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/mux/mux.h"
#include "cpp/base/delegate.hpp"

namespace tmesh::test {

struct SentFrame {
  tmesh_frame_header header{};
  std::string payload;
};

// One end of the pipe: the mux and everything that it sent.
class MuxEnd {
 public:
  using OnOpen = Delegate<void(tmesh_stream*, const tmesh_open_stream&)>;

  MuxEnd(tmesh_pool* pool, bool is_opener, uint32_t streams_max) {
    static constexpr tmesh_mux_events kEvents = {
        &MuxEnd::on_open, &MuxEnd::on_control, nullptr, nullptr, nullptr, nullptr};
    tmesh_mux_config config{};
    config.pool = pool;
    config.events = &kEvents;
    config.events_ctx = this;
    config.is_opener = is_opener;
    config.has_open_result = config.has_flow_control = true;
    config.resets_unknown_data = true;
    config.initial_window_bytes = TMESH_WINDOW_INITIAL_BYTES;
    config.window_threshold_bytes = TMESH_WINDOW_THRESHOLD_BYTES;
    config.inbound_max_bytes = TMESH_WINDOW_INITIAL_BYTES;
    config.outbound_max_bytes = TMESH_WINDOW_LEGACY_CAP_BYTES;
    config.streams_max = streams_max;
    EXPECT_TRUE(tmesh_is_ok(tmesh_mux_init(&mux, &config)));
  }
  ~MuxEnd() { tmesh_mux_close(&mux); }
  MuxEnd(const MuxEnd&) = delete;
  MuxEnd& operator=(const MuxEnd&) = delete;

  // Frames of this type that it sent for this stream (0 = any).
  std::vector<SentFrame> sent_of(unsigned type, uint32_t stream_id = 0) const {
    std::vector<SentFrame> out;
    for (const SentFrame& f : sent) {
      if (f.header.type == type && (stream_id == 0 || f.header.stream_id == stream_id)) out.push_back(f);
    }
    return out;
  }
  std::size_t count_of(unsigned type, uint32_t stream_id = 0) const {
    return sent_of(type, stream_id).size();
  }

  tmesh_mux mux{};
  OnOpen open;  // acceptors
  std::vector<SentFrame> sent;

 private:
  friend class MuxPair;
  static void on_open(void* ctx, tmesh_stream* stream, const tmesh_open_stream* open) {
    auto* self = static_cast<MuxEnd*>(ctx);
    if (self->open) self->open(stream, *open);
  }
  static tmesh_status on_control(void*, const tmesh_frame_header*, const uint8_t*, size_t) {
    return tmesh_ok();
  }

  std::string message_;
};

class MuxPair {
 public:
  MuxPair(tmesh_pool* pool, uint32_t streams_max)
      : opener(pool, true, streams_max), acceptor(pool, false, streams_max) {}

  // One direction's turn each; false when nothing moved.
  bool step() {
    bool moved = false;
    moved |= dispatch(opener);
    moved |= dispatch(acceptor);
    moved |= carry(opener, acceptor);
    moved |= carry(acceptor, opener);
    return moved;
  }
  // The link breaks: both ends hear of it.
  void cut(tmesh_code why = TMESH_E_CLOSED) {
    tmesh_mux_fail(&opener.mux, tmesh_err_session(why));
    tmesh_mux_fail(&acceptor.mux, tmesh_err_session(why));
  }

  MuxEnd opener;
  MuxEnd acceptor;
  bool is_held[2] = {false, false};  // from opener, from acceptor: what is sent waits

 private:
  static bool dispatch(MuxEnd& end) {
    if (tmesh_list_empty(&end.mux.events)) return false;
    tmesh_mux_dispatch(&end.mux);
    return true;
  }
  bool carry(MuxEnd& from, MuxEnd& to) {
    const bool is_opener = &from == &opener;
    std::deque<SentFrame>& pipe = pipes_[is_opener ? 0 : 1];
    bool moved = false;
    if (!is_held[is_opener ? 0 : 1] && tmesh_mux_has_output(&from.mux)) {
      pipe_ = &pipe;
      from_ = &from;
      tmesh_sink sink{this, &MuxPair::begin, &MuxPair::end};
      moved = tmesh_mux_pull(&from.mux, &sink, 65536) > 0;
      if (moved) tmesh_mux_written(&from.mux);
    }
    while (!pipe.empty()) {
      const SentFrame f = pipe.front();
      pipe.pop_front();
      moved = true;
      if (!tmesh_is_ok(tmesh_mux_frame_header(&to.mux, &f.header))) continue;
      if (!tmesh_is_ok(tmesh_mux_frame_payload(&to.mux, reinterpret_cast<const uint8_t*>(f.payload.data()),
                                               f.payload.size()))) {
        continue;
      }
      if (!tmesh_is_ok(tmesh_mux_frame_end(&to.mux))) continue;
    }
    return moved;
  }
  static uint8_t* begin(void* ctx, size_t len_bytes) {
    auto* self = static_cast<MuxPair*>(ctx);
    self->from_->message_.assign(len_bytes, '\0');
    return reinterpret_cast<uint8_t*>(self->from_->message_.data());
  }
  static void end(void* ctx) {
    auto* self = static_cast<MuxPair*>(ctx);
    const std::string& message = self->from_->message_;
    SentFrame frame;
    EXPECT_TRUE(tmesh_is_ok(
        tmesh_frame_header_decode(&frame.header, reinterpret_cast<const uint8_t*>(message.data()))));
    frame.payload = message.substr(TMESH_FRAME_HEADER_BYTES);
    self->from_->sent.push_back(frame);
    self->pipe_->push_back(std::move(frame));
  }

  std::deque<SentFrame> pipes_[2];
  std::deque<SentFrame>* pipe_ = nullptr;
  MuxEnd* from_ = nullptr;
};

inline tmesh_open_stream open_request(std::string_view host, uint16_t port, std::string_view agent = "home") {
  tmesh_open_stream open{};
  std::memcpy(open.agent_id, agent.data(), agent.size());
  std::memcpy(open.target_host, host.data(), host.size());
  open.protocol = TMESH_OPEN_TCP;
  open.target_port = port;
  return open;
}

// The hand-steered end of a stream: takes what comes and remembers it. Its events may
// come until it is released, so it stays where it is.
class PlainStream {
 public:
  PlainStream() = default;
  ~PlainStream() { release(); }
  PlainStream(const PlainStream&) = delete;
  PlainStream& operator=(const PlainStream&) = delete;

  void attach(tmesh_stream* s) {
    stream = s;
    id = s->id;
    tmesh_stream_attach(s, this, &PlainStream::on_event);
  }
  // On an opener's mux; false if the mux refuses.
  bool open(tmesh_mux* mux, const tmesh_open_stream& request, bool is_strict = true,
            uint32_t window_bytes = TMESH_WINDOW_INITIAL_BYTES) {
    tmesh_open_params params{&request, is_strict, window_bytes};
    tmesh_status why{};
    tmesh_stream* made = tmesh_mux_open(mux, &params, &why);
    if (made != nullptr) attach(made);
    return made != nullptr;
  }
  void write(std::string_view data) {
    EXPECT_EQ(tmesh_stream_write(stream, data.data(), data.size()), data.size());
  }
  void finish() { tmesh_stream_finish(stream); }
  void reset() { tmesh_stream_reset(stream); }
  void release() {
    if (stream != nullptr) tmesh_stream_release(std::exchange(stream, nullptr));
  }
  void answer(const tmesh_open_result& what) { tmesh_stream_answer(stream, &what); }
  void accept() { answer(tmesh_open_accept()); }

  tmesh_stream* stream = nullptr;
  uint32_t id = 0;
  std::string received;
  bool is_eof = false;
  bool is_over = false;
  bool has_result = false;
  bool takes = true;  // false: leaves bytes unread, so no credit returns
  tmesh_open_result result{};
  tmesh_status over{};

 private:
  static void on_event(void* user, tmesh_stream* s, unsigned events) {
    auto* self = static_cast<PlainStream*>(user);
    if ((events & TMESH_STREAM_EV_RESULT) != 0) {
      self->has_result = true;
      self->result = s->result;
    }
    if ((events & TMESH_STREAM_EV_OVER) != 0) {
      self->is_over = true;
      self->over = s->over;
      return;
    }
    if (self->takes) self->take();
  }

 public:
  void take() {
    char block[4096];
    for (size_t n; (n = tmesh_chunkq_read(&stream->in, block, sizeof block)) > 0;) {
      received.append(block, n);
      tmesh_stream_consumed(stream, n);
    }
    is_eof = stream->in_eof;
  }
};

}  // namespace tmesh::test
