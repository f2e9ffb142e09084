// What the TLS library does per core, with our own configuration: a client and a server
// joined by memory, no sockets, full records, every byte encrypted once and decrypted once.
//
//   bench_tls --cert PEM --key PEM --ca PEM [--seconds T]
//
// That is exactly the work of the server between two TLS links, so the rate printed is an
// upper bound for one stream through it. One line of JSON.

#include "core/wire/tls.h"
#include "tests/bench/bench_net.hpp"

namespace tmesh::bench {
namespace {

std::string read_file(const std::string& path) {
  FILE* file = fopen(path.c_str(), "rb");
  if (file == nullptr) die("%s: %s", path.c_str(), strerror(errno));
  std::string text;
  char bytes[4096];
  for (std::size_t n; (n = fread(bytes, 1, sizeof bytes, file)) > 0;) text.append(bytes, n);
  fclose(file);
  return text;
}

tmesh_tls_pem pem(const std::string& text) {
  return {.data = text.data(), .len_bytes = text.size()};
}

void must(tmesh_status st, const char* what) {
  if (!tmesh_is_ok(st)) die("%s: %s", what, tmesh_code_name(st.code));
}

// Moves what `from` has pending into `to`'s handshake.
void shake(tmesh_tls* from, tmesh_tls* to) {
  const uint8_t* data;
  std::size_t size, used = 0;
  tmesh_tls_pending(from, &data, &size);
  std::string copy(reinterpret_cast<const char*>(data), size);
  tmesh_tls_sent(from, size);
  for (std::size_t at = 0; !tmesh_tls_handshake_done(to);) {
    const tmesh_status st = tmesh_tls_handshake_step(to, reinterpret_cast<const uint8_t*>(copy.data()) + at,
                                                     copy.size() - at, &used);
    at += used;
    if (st.code == TMESH_E_AGAIN) return;
    must(st, "handshake");
  }
}

}  // namespace
}  // namespace tmesh::bench

int main(int argc, char** argv) {
  using namespace tmesh::bench;
  prepare_process();
  Options options(argc, argv, 1);
  const std::string cert = read_file(options.text("--cert")), key = read_file(options.text("--key")),
                    ca = read_file(options.text("--ca"));
  const auto limit_ns = static_cast<uint64_t>(options.number("--seconds", 2) * 1e9);
  options.end();
  tmesh_tls_options server_options{}, client_options{};
  server_options.cert = pem(cert);
  server_options.key = pem(key);
  client_options.ca = pem(ca);
  tmesh_tls_config *server_config, *client_config;
  tmesh_tls_config_error error;
  must(tmesh_tls_config_new_server(&server_options, &server_config, &error), "server configuration");
  must(tmesh_tls_config_new_client(&client_options, &client_config, &error), "client configuration");
  tmesh_tls *server, *client;
  must(tmesh_tls_new(server_config, nullptr, &server), "server");
  must(tmesh_tls_new(client_config, "localhost", &client), "client");
  while (!tmesh_tls_handshake_done(server) || !tmesh_tls_handshake_done(client)) {
    shake(server, client);
    shake(client, server);
  }

  // The direction of a download: the server's end encrypts.
  std::vector<uint8_t> plain(TMESH_TLS_PLAIN_MAX_BYTES, 'x'), out(TMESH_TLS_PLAIN_MAX_BYTES);
  uint64_t bytes = 0;
  const uint64_t begin_ns = now_ns(), begin_cpu_ns = cpu_ns();
  while (now_ns() - begin_ns < limit_ns) {
    for (int i = 0; i < 64; i++) {
      const uint8_t* sealed;
      std::size_t size, used = 0, got = 0;
      must(tmesh_tls_write(server, plain.data(), plain.size()), "write");
      tmesh_tls_pending(server, &sealed, &size);
      for (std::size_t at = 0; at < size;) {
        const tmesh_status st =
            tmesh_tls_read(client, sealed + at, size - at, &used, out.data(), out.size(), &got);
        if (st.code != TMESH_E_AGAIN) must(st, "read");
        at += used;
        bytes += got;
      }
      tmesh_tls_sent(server, size);
    }
  }
  const double seconds = static_cast<double>(now_ns() - begin_ns) / 1e9;
  const double cpu_s = static_cast<double>(cpu_ns() - begin_cpu_ns) / 1e9;
  const double gib = static_cast<double>(bytes) / 1073741824.0;
  printf("{\"seconds\": %.3f, \"mib_s\": %.2f, \"cpu_s_per_gib\": %.4f, \"tls\": \"%s\"}\n", seconds,
         gib * 1024 / seconds, cpu_s / gib,
         tmesh_tls_negotiated(client) == TMESH_TLS_VERSION_1_3 ? "1.3" : "1.2");
  tmesh_tls_free(server);
  tmesh_tls_free(client);
  tmesh_tls_config_unref(server_config);
  tmesh_tls_config_unref(client_config);
  return 0;
}
