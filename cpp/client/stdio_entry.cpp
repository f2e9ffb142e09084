#include "cpp/client/stdio_entry.hpp"

#include <utility>

#include "cpp/client/open_error_map.hpp"

namespace tmesh::client {

Result<void> StdioEntry::listen() {
  auto stdio = net::Stdio::open(loop(), {Delegate<void()>::bind<&StdioEntry::on_input_failed>(this),
                                         Delegate<void(bool)>::bind<&StdioEntry::on_output_over>(this)});
  if (!stdio) return std::unexpected(stdio.error());
  stdio_ = std::move(*stdio);
  // The links, without which it would be refused, start behind the entries.
  next_ = loop().after(0, Delegate<void()>::bind<&StdioEntry::on_begin>(this));
  return {};
}

void StdioEntry::on_begin() {
  next_.release();
  if (has_failed_) return finish();
  take(stdio_->take_socket());
}

void StdioEntry::on_end(tmesh_status why, const tmesh_open_result& answer) {
  is_stream_over_ = true;
  const bool is_refused = why.code == TMESH_E_REFUSED;
  if (is_refused) {
    note_failure(open_error_text(answer));
  } else if (!tmesh_is_ok(why)) {
    note_failure("the connection broke before its end");
  }
  // What the target said before is still written.
  if (is_refused || is_output_over_) finish();
}

void StdioEntry::on_input_failed() {
  note_failure("standard input cannot be read");
  finish();
}

void StdioEntry::on_output_over(bool is_complete) {
  is_output_over_ = true;
  if (!is_complete) note_failure("standard output takes no more");
  if (!is_complete || is_stream_over_) finish();
}

void StdioEntry::note_failure(const char* why) {
  if (!std::exchange(has_failed_, true)) events_.failed(why);
}

void StdioEntry::on_over() {
  next_.release();
  stdio_.reset();
  close();
  events_.over(*this);
}

// From the loop, not from inside a call of a local. Before the begin, that does it.
void StdioEntry::finish() {
  if (!next_.active()) next_ = loop().after(0, Delegate<void()>::bind<&StdioEntry::on_over>(this));
}

}  // namespace tmesh::client
