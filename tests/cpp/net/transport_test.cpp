#include "cpp/net/transport.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "core/wire/tls.h"
#include "cpp/net/listener.hpp"
#include "cpp/net/tls_context.hpp"
#include "tests/cpp/net/loop_fixture.hpp"
#include "tests/cpp/net/tls_files.hpp"

namespace tmesh::net {
namespace {

std::span<const uint8_t> bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Records what happens; may destroy its Transport inside a callback.
struct Recorder : TransportHandler {
  void on_ready(tmesh_status st) override {
    ready = st;
    if (destroys_in == "ready") transport = {};
    if (transport && tmesh_is_ok(st)) transport.read(true);
  }
  void on_data(std::span<uint8_t> data) override {
    received.append(reinterpret_cast<const char*>(data.data()), data.size());
    if (destroys_in == "data") transport = {};
  }
  void on_eof() override {
    is_eof = true;
    if (destroys_in == "eof") transport = {};
  }
  void on_written() override { ++written; }
  void on_error(tmesh_status st) override {
    error = st;
    if (destroys_in == "error") transport = {};
  }

  Transport transport;
  std::optional<tmesh_status> ready;
  std::optional<tmesh_status> error;
  std::string received;
  std::string destroys_in;
  bool is_eof = false;
  int written = 0;
};

class TransportTest : public LoopTest {
 protected:
  void listen() {
    auto made = Listener::open(loop(), "127.0.0.1", 0,
                               {Delegate<void(int, const Peer&)>::bind<&TransportTest::on_accept>(this),
                                Delegate<void(tmesh_status)>::bind<&TransportTest::on_broken>(this)});
    ASSERT_TRUE(made.has_value());
    listener = std::move(*made);
  }
  void on_accept(int fd, const Peer&) {
    auto made = Transport::accept(loop(), fd, server_tls ? &*server_tls : nullptr, server);
    ASSERT_TRUE(made.has_value());
    server.transport = std::move(*made);
  }
  void on_broken(tmesh_status) {}
  void connect_pair(const char* name = "localhost") {
    RawClient raw(listener.port());
    client_fd = raw.fd();
    auto made = Transport::connect(loop(), raw.release(), client_tls ? &*client_tls : nullptr, name, client);
    ASSERT_TRUE(made.has_value());
    client.transport = std::move(*made);
    EXPECT_FALSE(client.ready.has_value()) << "never from inside the call";
  }
  bool wait_ready() {
    return run_until([&] { return client.ready.has_value() && server.ready.has_value(); });
  }
  static void send(Transport& transport, std::string_view text) {
    bool is_done = false;
    ASSERT_TRUE(tmesh_is_ok(transport.try_write(bytes(text), &is_done)));
    ASSERT_TRUE(is_done);
  }

  void reset(Transport& transport) {
    linger hard{1, 0};
    ::setsockopt(client_fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    transport.close(false);
  }

  int client_fd = -1;  // the transport's
  std::optional<TlsContext> server_tls;
  std::optional<TlsContext> client_tls;
  Recorder server;
  Recorder client;
  Listener listener;
};

TEST_F(TransportTest, CarriesBytesBothWaysAndTheEnd) {
  listen();
  connect_pair();
  ASSERT_TRUE(wait_ready());
  send(client.transport, "hello");
  send(server.transport, "world");
  ASSERT_TRUE(run_until([&] { return server.received == "hello" && client.received == "world"; }));
  EXPECT_EQ(client.transport.bytes_out(), 5u);
  EXPECT_EQ(client.transport.bytes_in(), 5u);
  EXPECT_EQ(client.transport.tls(), nullptr);
  client.transport.close(true);
  EXPECT_FALSE(static_cast<bool>(client.transport));
  ASSERT_TRUE(run_until([&] { return server.is_eof; }));
}

TEST_F(TransportTest, OnWrittenFollowsAWriteOnce) {
  listen();
  connect_pair();
  ASSERT_TRUE(wait_ready());
  std::string big(8u << 20, 'x');
  ASSERT_TRUE(tmesh_is_ok(client.transport.write(bytes(big))));
  EXPECT_EQ(client.written, 0) << "never from inside the call";
  EXPECT_EQ(client.transport.write(bytes("more")).code, TMESH_E_STATE);
  ASSERT_TRUE(run_until([&] { return client.written == 1 && server.received.size() == big.size(); }));
}

class TransportDestroyTest : public TransportTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(TransportDestroyTest, MayBeDestroyedInside) {
  const std::string where = GetParam();
  listen();
  server.destroys_in = where;
  connect_pair();
  if (where != "ready") {
    ASSERT_TRUE(wait_ready());
    if (where == "data") send(client.transport, "x");
    if (where == "eof") client.transport.close(true);
    if (where == "error") reset(client.transport);
  }
  ASSERT_TRUE(run_until([&] { return server.ready.has_value() && !server.transport; }));
}

INSTANTIATE_TEST_SUITE_P(EachCallback, TransportDestroyTest,
                         ::testing::Values("ready", "data", "eof", "error"));

TEST_F(TransportTest, AnotherHandlerGetsWhatFollows) {
  listen();
  connect_pair();
  ASSERT_TRUE(wait_ready());
  Recorder second;
  server.transport.read(false);
  server.transport.set_handler(&second);
  send(client.transport, "for the second");
  server.transport.read(true);
  ASSERT_TRUE(run_until([&] { return second.received == "for the second"; }));
  EXPECT_EQ(server.received, "");
  server.transport = {};
}

class TlsTest : public TransportTest {
 protected:
  const std::string dir = tls_test_folder();
};

TEST_F(TlsTest, CarriesBytesWhenTheNameIsTheCertificates) {
  server_tls = std::move(*TlsContext::server(tls_server_files()));
  client_tls = std::move(*TlsContext::client(tls_client_files()));
  listen();
  connect_pair();
  ASSERT_TRUE(wait_ready());
  ASSERT_TRUE(tmesh_is_ok(*client.ready));
  ASSERT_TRUE(tmesh_is_ok(*server.ready));
  EXPECT_EQ(tmesh_tls_negotiated(client.transport.tls()), TMESH_TLS_VERSION_1_3);
  send(client.transport, "hello");
  ASSERT_TRUE(run_until([&] { return server.received == "hello"; }));
  client.transport.close(true);
  EXPECT_TRUE(run_until([&] { return server.is_eof; }));
}

TEST_F(TlsTest, RefusesAnotherNameAndAnotherCa) {
  server_tls = std::move(*TlsContext::server(tls_server_files()));
  client_tls = std::move(*TlsContext::client(tls_client_files()));
  listen();
  connect_pair("other.example");
  ASSERT_TRUE(run_until([&] { return client.ready.has_value(); }));
  EXPECT_EQ(client.ready->code, TMESH_E_TLS_VERIFY);
}

TEST_F(TlsTest, ReloadTakesNewFilesAndAFailedOneKeepsTheOld) {
  auto context = TlsContext::server(tls_server_files());
  ASSERT_TRUE(context.has_value());
  tmesh_tls_config* first = context->raw();
  ASSERT_TRUE(context->reload().has_value());
  tmesh_tls_config* second = context->raw();
  EXPECT_NE(first, second);
  std::filesystem::rename(dir + "/server.pem", dir + "/moved.pem");
  auto failed = context->reload();
  std::filesystem::rename(dir + "/moved.pem", dir + "/server.pem");
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(context->raw(), second);
}

TEST_F(TlsTest, ErrorsNameTheFileAtFault) {
  std::string garbage = dir + "/garbage.pem";
  std::ofstream(garbage) << "not PEM\n";
  std::string other_key = dir + "/ca-key.pem";
  struct Row {
    TlsFiles files;
    bool is_server;
    std::string part;
  };
  const Row rows[] = {
      {{dir + "/missing.pem", dir + "/server-key.pem", "", false}, true, "missing.pem: no such file"},
      {{garbage, dir + "/server-key.pem", "", false}, true, "garbage.pem: not a PEM certificate"},
      {{dir + "/server.pem", garbage, "", false}, true, "garbage.pem: not an unencrypted PEM private key"},
      {{dir + "/server.pem", other_key, "", false},
       true,
       "ca-key.pem: not the key of certificate " + dir + "/server.pem"},
      {{"", dir + "/server-key.pem", "", false}, true, "certificate (not set)"},
      {{"", "", garbage, false}, false, "CA file " + garbage + ": holds no PEM certificate"},
      {{"", "", dir, false}, false, "CA file " + dir},
  };
  for (const Row& row : rows) {
    auto made = row.is_server ? TlsContext::server(row.files) : TlsContext::client(row.files);
    ASSERT_FALSE(made.has_value()) << row.part;
    EXPECT_NE(made.error().find(row.part), std::string::npos) << made.error();
  }
}

}  // namespace
}  // namespace tmesh::net
