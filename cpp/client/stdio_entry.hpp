// Standard input and output as the one local side of a stream: `proxy tcp`, as ssh starts
// it for ProxyCommand.
//
// A TCP entry without a listener: early data, half-close both ways and refusal as there.
// Ends when both directions have ended and every byte of the target is written.
#pragma once

#include <memory>

#include "cpp/client/tcp_entry.hpp"
#include "cpp/net/stdio.hpp"

namespace tmesh::client {

class StdioEntry final : public TcpEntry {
 public:
  struct Events {
    // It will not end regularly: why, a static phrase. At most once, before whoever reads the
    // output can see its end.
    Delegate<void(const char* why)> failed;
    // Nothing of the stream lives any more. Once, from the loop.
    Broken over;
  };

  StdioEntry(const EntryDeps& deps, const config::Tunnel& tunnel, const Events& events)
      : TcpEntry(deps, tunnel, events.over), events_(events) {}
  ~StdioEntry() override { close(); }

  // Opens the stream.
  Result<void> listen() override;

 private:
  void on_end(tmesh_status why, const tmesh_open_result& answer) override;
  void on_begin();
  void on_input_failed();
  void on_output_over(bool is_complete);
  void note_failure(const char* why);
  void finish();
  void on_over();

  const Events events_;
  std::unique_ptr<net::Stdio> stdio_;
  Ticket next_;  // the begin or the end, on its way
  bool has_failed_ = false;
  bool is_stream_over_ = false;
  bool is_output_over_ = false;
};

}  // namespace tmesh::client
