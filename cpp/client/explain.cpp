#include "cpp/client/explain.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "cpp/base/exit_code.hpp"
#include "cpp/base/json.hpp"
#include "cpp/base/random.hpp"
#include "cpp/base/text_table.hpp"
#include "cpp/client/open_advice.hpp"
#include "cpp/client/server_link.hpp"
#include "cpp/net/dialer.hpp"
#include "cpp/net/process.hpp"
#include "cpp/net/tls_context.hpp"
#include "cpp/session/status_text.hpp"

namespace tmesh::client {
namespace {

// A server without answers resets what it cannot open; what is not reset for so long is open.
constexpr uint64_t kLegacyPatience_us = 3'000'000;

struct Stage {
  const char* name;
  uint64_t us;
  std::string note;
};

// The loop's clock stands still within an iteration, which is long enough for an answer of
// this machine; its source is the same.
uint64_t clock_us() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

class Explain {
 public:
  explicit Explain(const config::ClientConfig& config)
      : config_(config), tunnel_(config.tunnels.front()), identity_{config, {}, config.instance_id, 0} {}

  // nullptr, or what is missing on this machine.
  const char* run() {
    net::ignore_sigpipe();
    auto loop = net::Loop::create(config_.limits.memory_budget_bytes);
    if (!loop) return loop.error().text;
    loop_ = std::move(*loop);
    const char* const why = prepare();
    if (why == nullptr) {
      link_->start();
      loop_->run();
    }
    deadline_.cancel();
    release();
    link_.reset();
    dialer_.reset();
    tls_.reset();
    (void)loop_->close();
    return why;
  }

  void print(std::FILE* out) const {
    std::vector<std::vector<std::string>> lines;
    lines.reserve(stages_.size());
    for (const Stage& stage : stages_)
      lines.push_back({stage.name, session::short_time(std::max<uint64_t>(stage.us, 1)), stage.note});
    const std::string text =
        text_table(lines) + (lines.empty() ? "" : "\n") + verdict_ + "\n" + advice_ + "\n";
    std::fwrite(text.data(), 1, text.size(), out);
  }

  void print_json(std::FILE* out) const {
    std::string text;
    json::Writer json(text);
    json.begin_object().key("stages").begin_array();
    for (const Stage& stage : stages_) {
      json.begin_object().member("stage", stage.name).member("us", stage.us).member("note", stage.note);
      json.end_object();
    }
    json.end_array().member("reached", is_reached_).member("stage", failed_stage_).member("code", code_);
    json.member("advice", advice_).end_object();
    text += '\n';
    std::fwrite(text.data(), 1, text.size(), out);
  }

  bool is_reached() const { return is_reached_; }

 private:
  const char* prepare() {
    auto dialer = net::Dialer::create(*loop_);
    if (!dialer) return dialer.error().text;
    dialer_ = std::move(*dialer);
    if (config_.server.endpoint.is_tls) {
      auto tls = net::TlsContext::client({"", "", config_.server.ca_file, false});
      if (!tls) {
        tls_error_ = tls.error();
        return tls_error_.c_str();
      }
      tls_.emplace(std::move(*tls));
    }
    identity_.endpoint = {config_.server.endpoint, &config_.token, tls_ ? &*tls_ : nullptr};
    identity_.started_at_us = loop_->wall_us();
    // Not the service's own, which has links under its id.
    identity_.instance_id = "client-" + random_hex(16);
    link_ = std::make_unique<ServerLink>(*loop_, *dialer_, identity_, tunnel_.agent_id, 1,
                                         Delegate<void()>::bind<&Explain::on_change>(this));
    return nullptr;
  }

  void on_change() {
    if (is_opening_ || is_over_) return;
    const session::SlotStatus status = link_->status();
    const session::ConnectTimes& times = status.connect_times;
    const bool is_up = link_->ready() != nullptr;
    if (is_up || times.dns_us != 0) stages_.push_back({"dns", times.dns_us, ""});
    if (is_up || times.connect_us != 0) stages_.push_back({"connect", times.connect_us, ""});
    if (times.tls_us != 0) stages_.push_back({"tls", times.tls_us, ""});
    if (!is_up) {
      const session::SlotFailure& failure = status.last_failure;
      return finish(false, failure.stage, failure.code, failure.text);
    }
    is_opening_ = true;
    has_hello_ = tmesh_subprotocol_has_hello(status.subprotocol);
    const bool is_strict = tmesh_subprotocol_is_strict(status.subprotocol);
    stages_.push_back({"upgrade", times.upgrade_us,
                       std::string(tmesh_subprotocol_name(status.subprotocol)) +
                           (is_strict ? " (opens are answered)" : " (opens are not answered)")});
    opened_us_ = loop_->now_us();
    // The session takes opens when this callback has returned.
    deadline_ = loop_->after(0, Delegate<void()>::bind<&Explain::open>(this));
  }

  void open() {
    OpenRequest request;
    request.agent_id = tunnel_.agent_id;
    request.host = tunnel_.target_host;
    request.port = tunnel_.target_port;
    const Result<OpenedStream> opened = link_->open(request, true);
    if (!opened) return finish(false, "selection", tmesh_code_name(opened.error().code), opened.error().text);
    stream_ = opened->stream;
    is_strict_ = opened->is_strict;
    tmesh_stream_attach(stream_, this, &Explain::on_stream_event);
    deadline_ = loop_->after(is_strict_ ? config_.open_timeout_us : kLegacyPatience_us,
                             Delegate<void()>::bind<&Explain::on_timeout>(this));
  }

  static void on_stream_event(void* user, tmesh_stream* stream, unsigned events) {
    auto* self = static_cast<Explain*>(user);
    if (self->is_over_) return;
    if ((events & TMESH_STREAM_EV_RESULT) != 0) {
      const tmesh_open_result& result = stream->result;
      self->answered(result.accepted ? "accepted" : "refused");
      return self->finish(result.accepted, tmesh_open_stage_name(result.stage),
                          tmesh_open_code_name(result.code), open_advice(result.stage, result.code));
    }
    if ((events & TMESH_STREAM_EV_OVER) != 0) {
      const bool is_link = stream->over.scope == TMESH_SCOPE_SESSION;
      return self->finish(false, is_link ? "link" : "open", tmesh_code_name(stream->over.code),
                          is_link ? "The link to the server broke during the open."
                                  : "The server ended the stream without saying why.");
    }
  }

  // Hello and open left together.
  void answered(const char* note) {
    const ServerLink::Hello& hello = link_->hello();
    if (has_hello_ && hello.answered_us == 0) stages_.push_back({"hello", 0, "no answer"});
    if (hello.answered_us != 0)
      stages_.push_back(
          {"hello", hello.answered_us - opened_us_, hello.is_accepted ? "accepted" : "refused"});
    stages_.push_back({"open", clock_us() - opened_us_, note});
  }

  void on_timeout() {
    if (is_strict_) {
      answered("no answer");
      return finish(false, "open", tmesh_open_code_name(TMESH_OPEN_TIMEOUT),
                    "No answer came in time; look at `tunnelmesh-agent status` and the server's log.");
    }
    answered("not refused");
    finish(true, "open", tmesh_open_code_name(TMESH_OPEN_OK),
           "This server gives no answer to opens; it has not refused the stream within 3 s.");
  }

  void finish(bool is_reached, const char* stage, const char* code, const char* advice) {
    is_over_ = true;
    is_reached_ = is_reached;
    failed_stage_ = stage;
    code_ = code;
    advice_ = advice;
    verdict_ = std::string(is_reached ? "reached: " : "not reached: ") + stage + " " + code;
    deadline_.cancel();
    loop_->stop();
  }

  void release() {
    if (stream_ == nullptr) return;
    tmesh_stream_reset(stream_);
    tmesh_stream_release(std::exchange(stream_, nullptr));
  }

  const config::ClientConfig& config_;
  const config::Tunnel& tunnel_;
  ClientIdentity identity_;
  std::string tls_error_;
  std::unique_ptr<net::Loop> loop_;
  std::unique_ptr<net::Dialer> dialer_;
  std::optional<net::TlsContext> tls_;
  std::unique_ptr<ServerLink> link_;
  Ticket deadline_;
  tmesh_stream* stream_ = nullptr;
  uint64_t opened_us_ = 0;
  bool is_strict_ = false;
  bool has_hello_ = false;
  bool is_opening_ = false;
  bool is_over_ = false;
  std::vector<Stage> stages_;
  bool is_reached_ = false;
  const char* failed_stage_ = "";
  const char* code_ = "";
  const char* advice_ = "";
  std::string verdict_;
};

}  // namespace

int run_explain(const config::ClientConfig& config, bool is_json, std::FILE* out, std::FILE* err) {
  TMESH_ASSERT(config.tunnels.size() == 1);
  Explain explain(config);
  if (const char* const why = explain.run(); why != nullptr) {
    (void)std::fprintf(err, "explain: %s\n", why);
    return kExitFailure;
  }
  if (is_json) {
    explain.print_json(out);
  } else {
    explain.print(out);
  }
  return explain.is_reached() && std::fflush(out) == 0 ? kExitOk : kExitFailure;
}

}  // namespace tmesh::client
