// One hop of the bare relay chain that throughput is compared with: what libuv and the
// kernel cost when nobody frames, multiplexes, masks or accounts anything.
//
//   bench_chain --to PORT     prints its port, relays every connection to PORT until killed
//
// Three of these in a row stand for client, server and agent. A direction reads into one
// block of 32 KiB (the size of our own blocks), writes it with uv_try_write, and where the
// socket takes less, queues the rest and does not read before it is gone.

#include <uv.h>

#include "tests/bench/bench_net.hpp"

namespace tmesh::bench {
namespace {

constexpr std::size_t kBlockBytes = 32u << 10;

struct Pair;

struct Half {
  uv_tcp_t tcp{};  // read from here, write to peer->tcp
  Half* peer = nullptr;
  Pair* pair = nullptr;
  bool is_ended = false;
  uv_write_t write{};
  uv_shutdown_t shutdown{};
  std::size_t rest_at = 0, rest_bytes = 0;
  char block[kBlockBytes];
};

struct Pair {
  Half near, far;
  uv_connect_t connect{};
  int open_handles = 2;
  bool is_closing = false;
};

int to_port;

Half* half_of(uv_handle_t* h) {
  return static_cast<Half*>(h->data);
}

void close_pair(Pair* pair) {
  if (pair->is_closing) return;
  pair->is_closing = true;
  for (Half* h : {&pair->near, &pair->far}) {
    uv_close(reinterpret_cast<uv_handle_t*>(&h->tcp), [](uv_handle_t* handle) {
      Pair* p = half_of(handle)->pair;
      if (--p->open_handles == 0) delete p;
    });
  }
}

void on_read(uv_stream_t* stream, ssize_t n, const uv_buf_t*);

void start_reading(Half* h) {
  const auto lend = [](uv_handle_t* handle, std::size_t, uv_buf_t* buffer) {
    *buffer = uv_buf_init(half_of(handle)->block, kBlockBytes);
  };
  if (uv_read_start(reinterpret_cast<uv_stream_t*>(&h->tcp), lend, on_read) != 0) close_pair(h->pair);
}

void on_end(Half* h) {
  h->is_ended = true;
  h->shutdown.data = h;
  const auto done = [](uv_shutdown_t* request, int status) {
    Half* half = static_cast<Half*>(request->data);
    if (status != 0 || half->peer->is_ended) close_pair(half->pair);
  };
  if (uv_shutdown(&h->shutdown, reinterpret_cast<uv_stream_t*>(&h->peer->tcp), done) != 0)
    close_pair(h->pair);
}

void on_read(uv_stream_t* stream, ssize_t n, const uv_buf_t*) {
  Half* h = half_of(reinterpret_cast<uv_handle_t*>(stream));
  if (n == 0) return;
  if (n == UV_EOF) return on_end(h);
  if (n < 0) return close_pair(h->pair);
  uv_buf_t out = uv_buf_init(h->block, static_cast<unsigned>(n));
  auto* to = reinterpret_cast<uv_stream_t*>(&h->peer->tcp);
  const int written = uv_try_write(to, &out, 1);
  if (written < 0 && written != UV_EAGAIN) return close_pair(h->pair);
  h->rest_at = static_cast<std::size_t>(written < 0 ? 0 : written);
  h->rest_bytes = static_cast<std::size_t>(n) - h->rest_at;
  if (h->rest_bytes == 0) return;
  uv_read_stop(stream);
  h->write.data = h;
  out = uv_buf_init(h->block + h->rest_at, static_cast<unsigned>(h->rest_bytes));
  const auto done = [](uv_write_t* request, int status) {
    Half* half = static_cast<Half*>(request->data);
    if (half->pair->is_closing) return;
    if (status != 0) return close_pair(half->pair);
    start_reading(half);
  };
  if (uv_write(&h->write, to, &out, 1, done) != 0) close_pair(h->pair);
}

void on_connection(uv_stream_t* listener, int status) {
  if (status != 0) return;
  Pair* pair = new Pair;
  for (Half* h : {&pair->near, &pair->far}) {
    h->pair = pair;
    h->peer = h == &pair->near ? &pair->far : &pair->near;
    uv_tcp_init(listener->loop, &h->tcp);
    h->tcp.data = h;
  }
  if (uv_accept(listener, reinterpret_cast<uv_stream_t*>(&pair->near.tcp)) != 0) return close_pair(pair);
  uv_tcp_nodelay(&pair->near.tcp, 1);
  pair->connect.data = pair;
  const sockaddr_in to = loopback(to_port);
  const auto connected = [](uv_connect_t* request, int outcome) {
    Pair* p = static_cast<Pair*>(request->data);
    if (p->is_closing) return;
    if (outcome != 0) return close_pair(p);
    uv_tcp_nodelay(&p->far.tcp, 1);
    start_reading(&p->near);
    start_reading(&p->far);
  };
  if (uv_tcp_connect(&pair->connect, &pair->far.tcp, reinterpret_cast<const sockaddr*>(&to), connected) !=
      0) {
    close_pair(pair);
  }
}

}  // namespace
}  // namespace tmesh::bench

int main(int argc, char** argv) {
  using namespace tmesh::bench;
  prepare_process();
  Options options(argc, argv, 1);
  to_port = options.integer("--to", 0);
  options.end();
  uv_loop_t* loop = uv_default_loop();
  uv_tcp_t listener;
  sockaddr_in any = loopback(0);
  int size = sizeof any;
  if (uv_tcp_init(loop, &listener) != 0 ||
      uv_tcp_bind(&listener, reinterpret_cast<sockaddr*>(&any), 0) != 0 ||
      uv_listen(reinterpret_cast<uv_stream_t*>(&listener), 4096, on_connection) != 0 ||
      uv_tcp_getsockname(&listener, reinterpret_cast<sockaddr*>(&any), &size) != 0) {
    die("listen failed");
  }
  printf("%d\n", ntohs(any.sin_port));
  fflush(stdout);
  return uv_run(loop, UV_RUN_DEFAULT);
}
