// The load generator: one thread, flows direct or through a SOCKS5 port, one line of JSON.
//
//   bench_load open    --target PORT [--proxy PORT] --concurrency C --count N [--bytes B] [--name HOST]
//   bench_load mix     --target PORT [--proxy PORT] --small S --seconds T [--bulk N] [--stalled N]
//                      [--pause-ms P] [--bytes B]
//   bench_load bulk    --target PORT [--proxy PORT] --streams N --seconds T [--warm-s W] [--up 1]
//   bench_load idle    --target PORT [--proxy PORT] --count N   (closes them when stdin ends)
//   bench_load half    --target PORT [--proxy PORT] --bytes B
//   bench_load refused --target PORT [--proxy PORT]
//
// Without --proxy the target is reached directly. open and mix are closed loops: a flow
// that ends is followed by the next one, after --pause-ms if given. Times run from before
// connect(): "reply" to the SOCKS5 reply, "first_byte" to the target's first byte.

#include <poll.h>

#include <map>
#include <queue>

#include "tests/bench/bench_flow.hpp"

namespace tmesh::bench {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000u;
constexpr uint64_t kFlowLimitNs = 30 * kSecondNs;
constexpr uint64_t kForever = UINT64_MAX;

uint64_t to_ns(double seconds) {
  return static_cast<uint64_t>(seconds * 1e9);
}

enum Tag : uint64_t { kSmall, kBulk };

Flow make_flow(Tag tag, uint64_t bytes) {
  Flow flow;
  flow.tag = tag;
  flow.want_bytes = bytes;
  flow.request = "G " + std::to_string(bytes) + "\n";
  return flow;
}

class Load final : public FlowHandler {
 public:
  explicit Load(Options& o)
      : engine_(*this, o.integer("--proxy", 0), o.integer("--target", 0), o.text("--name")) {}

  void open(int concurrency, uint64_t count, uint64_t bytes) {
    small_bytes_ = bytes;
    left_to_start_ = count;
    is_looping_ = true;
    const uint64_t begin = now_ns();
    for (int i = 0; i < concurrency; i++) start_small();
    run_out();
    const double seconds = static_cast<double>(now_ns() - begin) / 1e9;
    const std::size_t done = first_ns_.size();
    printf("{\"seconds\": %.4f, \"per_s\": %.1f, \"cpu_us_per_open\": %.2f, ", seconds,
           static_cast<double>(done) / seconds,
           done > 0 ? static_cast<double>(cpu_ns()) / 1e3 / static_cast<double>(done) : 0.0);
    print_latencies();
    puts("}");
  }

  void mix(int small, int bulk, int stalled, double seconds, double pause_ms, uint64_t bytes) {
    small_bytes_ = bytes;
    pause_ns_ = static_cast<uint64_t>(pause_ms * 1e6);
    for (int i = 0; i < bulk + stalled; i++) {
      Flow flow = make_flow(kBulk, uint64_t{1} << 50);
      flow.is_stalled = i >= bulk;
      engine_.start(std::move(flow));
    }
    // Until windows and buffers are as they will stay.
    if (bulk + stalled > 0) run_until(now_ns() + kSecondNs);
    const uint64_t begin = now_ns();
    const uint64_t bulk_before = bulk_bytes();
    is_looping_ = true;
    // Paced flows start spread over one pause, not as one burst.
    for (int i = 0; i < small; i++) {
      if (pause_ns_ == 0) {
        start_small();
      } else {
        due_.push(begin + pause_ns_ * static_cast<uint64_t>(i) / static_cast<uint64_t>(small));
      }
    }
    run_until(begin + to_ns(seconds));
    is_looping_ = false;
    const double took = static_cast<double>(now_ns() - begin) / 1e9;
    printf("{\"seconds\": %.4f, \"per_s\": %.1f, \"bulk_mib_s\": %.4f, \"pending\": %llu, ", took,
           static_cast<double>(first_ns_.size()) / took,
           (static_cast<double>(bulk_bytes()) - static_cast<double>(bulk_before)) / took / 1048576.0,
           static_cast<unsigned long long>(live_));
    print_latencies();
    puts("}");
  }

  void bulk(int streams, double seconds, double warm_s, bool is_upload) {
    for (int i = 0; i < streams; i++) {
      Flow flow = make_flow(kBulk, uint64_t{1} << 50);
      flow.is_upload = is_upload;
      if (is_upload) flow.request = "S\n";
      engine_.start(std::move(flow));
    }
    run_until(now_ns() + to_ns(warm_s));
    std::vector<uint64_t> before(4096);
    engine_.for_each([&](int fd, Flow& f) {
      if (static_cast<std::size_t>(fd) < before.size()) before[static_cast<std::size_t>(fd)] = f.moved_bytes;
    });
    // Whoever samples CPU starts here and ends with the last line.
    puts("{\"measuring\": true}");
    fflush(stdout);
    const uint64_t begin = now_ns();
    run_until(begin + to_ns(seconds));
    const double took = static_cast<double>(now_ns() - begin) / 1e9;
    double total = 0, least = 1e300, most = 0;
    int count = 0;
    engine_.for_each([&](int fd, Flow& f) {
      const double moved = static_cast<double>(f.moved_bytes - before[static_cast<std::size_t>(fd)]);
      total += moved;
      least = std::min(least, moved);
      most = std::max(most, moved);
      count++;
    });
    const double mean = count > 0 ? total / count : 0;
    printf(
        "{\"seconds\": %.4f, \"bytes\": %.0f, \"mib_s\": %.2f, \"streams\": %d, \"worst_share\": %.4f, "
        "\"cpu_s_per_gib\": %.4f, ",
        took, total, total / took / 1048576.0, count,
        mean > 0 ? std::max(most / mean - 1, 1 - least / mean) : 0.0,
        total > 0 ? static_cast<double>(cpu_ns()) / 1e9 / (total / 1073741824.0) : 0.0);
    print_errors();
    puts("}");
  }

  void idle(uint64_t count) {
    small_bytes_ = 1;
    is_holding_ = true;
    left_to_start_ = count;
    is_looping_ = true;
    const uint64_t begin = now_ns();
    for (int i = 0; i < 64; i++) start_small();
    run_out();
    printf("{\"held\": %zu, \"seconds\": %.3f, ", first_ns_.size(),
           static_cast<double>(now_ns() - begin) / 1e9);
    print_errors();
    puts("}");
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
  }

  void half(uint64_t bytes) {
    is_half_ = true;
    live_ = 1;
    Flow flow = make_flow(kBulk, bytes);
    flow.is_half_closed = true;
    flow.want_bytes = kForever;  // what counts is the end of the stream behind them
    engine_.start(std::move(flow));
    const uint64_t begin = now_ns();
    while (live_ > 0 && now_ns() < begin + kFlowLimitNs) step(begin + kFlowLimitNs);
    printf("{\"received\": %llu, ", static_cast<unsigned long long>(half_bytes_));
    print_errors();
    puts("}");
  }

  // FlowHandler
  void on_first(Flow& flow) override {
    if (flow.tag != kSmall) return;
    reply_ns_.push_back(flow.reply_ns - flow.start_ns);
    first_ns_.push_back(flow.first_ns - flow.start_ns);
  }
  void on_done(int fd, Flow& flow) override {
    if (!is_holding_ || flow.tag != kSmall) engine_.finish(fd);
    ended(flow);
  }
  void on_failed(Flow& flow, const std::string& why) override {
    if (is_half_ && why == "closed") {
      half_bytes_ = flow.moved_bytes;
    } else {
      errors_[why]++;
    }
    ended(flow);
  }

 private:
  void start_small() {
    if (left_to_start_ == 0) return;
    left_to_start_--;
    live_++;
    engine_.start(make_flow(kSmall, small_bytes_));
  }
  void ended(const Flow& flow) {
    if (flow.tag != kSmall && !is_half_) return;
    live_--;
    if (!is_looping_) return;
    // Not from inside the engine's event: a refused connect() would recurse.
    due_.push(pause_ns_ == 0 ? 0 : now_ns() + pause_ns_);
  }
  void step(uint64_t until_ns) {
    const uint64_t now = now_ns();
    for (std::size_t n = due_.size(); n > 0 && due_.top() <= now; n--) {
      due_.pop();
      start_small();
    }
    if (live_ == 0 && until_ns == kForever) return;
    if (now >= next_expiry_ns_) {
      next_expiry_ns_ = now + kSecondNs;
      engine_.expire(kFlowLimitNs);
    }
    uint64_t wake_ns = std::min(until_ns, now + kSecondNs);
    if (!due_.empty()) wake_ns = std::min(wake_ns, due_.top());
    engine_.turn(wake_ns);
  }
  // Until the last flow that was to be started has ended.
  void run_out() {
    while (live_ > 0 || !due_.empty()) step(kForever);
  }
  void run_until(uint64_t until_ns) {
    while (now_ns() < until_ns) step(until_ns);
  }
  uint64_t bulk_bytes() {
    uint64_t total = 0;
    engine_.for_each([&](int, Flow& f) { total += f.tag == kBulk ? f.moved_bytes : 0; });
    return total;
  }
  void print_errors() {
    printf("\"errors\": {");
    const char* separator = "";
    for (const auto& [why, count] : errors_) {
      printf("%s\"%s\": %llu", separator, why.c_str(), static_cast<unsigned long long>(count));
      separator = ", ";
    }
    printf("}");
  }
  void print_latencies() {
    print_percentiles("reply_ms", reply_ns_);
    printf(", ");
    print_percentiles("first_byte_ms", first_ns_);
    printf(", ");
    print_errors();
  }

  FlowEngine engine_;
  uint64_t small_bytes_ = 1;
  uint64_t left_to_start_ = kForever;
  uint64_t live_ = 0;
  uint64_t pause_ns_ = 0;
  uint64_t next_expiry_ns_ = 0;
  uint64_t half_bytes_ = 0;
  bool is_looping_ = false, is_holding_ = false, is_half_ = false;
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> due_;  // when to start the next flows
  std::vector<uint64_t> reply_ns_, first_ns_;
  std::map<std::string, uint64_t> errors_;
};

int run(std::string_view mode, Options& o) {
  Load load(o);
  const double seconds = o.number("--seconds", 3);
  if (mode == "open" || mode == "refused") {
    const int concurrency = mode == "open" ? o.integer("--concurrency", 1) : 1;
    const auto count = static_cast<uint64_t>(mode == "open" ? o.number("--count", 1000) : 1);
    const auto bytes = static_cast<uint64_t>(o.number("--bytes", 1));
    o.end();
    load.open(concurrency, count, bytes);
  } else if (mode == "mix") {
    const int small = o.integer("--small", 31), bulk = o.integer("--bulk", 0),
              stalled = o.integer("--stalled", 0);
    const double pause_ms = o.number("--pause-ms", 0);
    const auto bytes = static_cast<uint64_t>(o.number("--bytes", 4096));
    o.end();
    load.mix(small, bulk, stalled, seconds, pause_ms, bytes);
  } else if (mode == "bulk") {
    const int streams = o.integer("--streams", 1);
    const double warm_s = o.number("--warm-s", 0.5);
    const bool is_upload = o.integer("--up", 0) != 0;
    o.end();
    load.bulk(streams, seconds, warm_s, is_upload);
  } else if (mode == "idle") {
    const auto count = static_cast<uint64_t>(o.number("--count", 1000));
    o.end();
    load.idle(count);
  } else if (mode == "half") {
    const auto bytes = static_cast<uint64_t>(o.number("--bytes", 1'000'000));
    o.end();
    load.half(bytes);
  } else {
    die("%.*s: unknown mode", static_cast<int>(mode.size()), mode.data());
  }
  return 0;
}

}  // namespace
}  // namespace tmesh::bench

int main(int argc, char** argv) {
  if (argc < 2)
    tmesh::bench::die("usage: bench_load open|mix|bulk|idle|half|refused --target PORT [options]");
  tmesh::bench::prepare_process();
  tmesh::bench::Options options(argc, argv, 2);
  return tmesh::bench::run(argv[1], options);
}
