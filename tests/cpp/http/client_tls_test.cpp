// The same under TLS: the certificate must be trusted, and be for the host.
#include <gtest/gtest.h>

#include "tests/cpp/http/client_fixture.hpp"
#include "tests/cpp/net/tls_files.hpp"

namespace tmesh::http {
namespace {

class TlsClientTest : public ClientTest {
 protected:
  TlsClientTest()
      : server_tls(std::move(*net::TlsContext::server(net::tls_server_files()))),
        client_tls(std::move(*net::TlsContext::client(net::tls_client_files()))),
        tls_server(loop(), &server_tls) {
    make_undialed();
    client->set_tls(client_tls);
  }
  ~TlsClientTest() override { drop_client(); }

  Call& send_to(const std::string& host) {
    ClientRequest request = post();
    request.url = {true, host, tls_server.port(), "/check"};
    return send(std::move(request));
  }
  // The dial goes to the server, whatever the name.
  void connect(const std::string& host) {
    net::RawClient raw(tls_server.port());
    fake_dialer.end(host, test::FakeDialer::connected(raw.release()));
  }

  net::TlsContext server_tls;
  net::TlsContext client_tls;
  test::FakeServer tls_server;
};

int count(std::string_view bytes) {
  int found = 0;
  for (std::size_t at = 0; (at = bytes.find("POST ", at)) != std::string_view::npos; at++) found++;
  return found;
}

TEST_F(TlsClientTest, RequestsGoThroughOneConnection) {
  for (int i = 0; i < 3; i++) {
    Call& call = send_to("localhost");
    if (i == 0) connect("localhost");
    ASSERT_TRUE(run_until([&] {
      return tls_server.count() == 1 && count(tls_server.last().bytes) == i + 1 &&
             tls_server.last().bytes.ends_with("b");
    }));
    EXPECT_EQ(call.count, 0);
    tls_server.last().reply(kOk);
    ASSERT_TRUE(run_until([&] { return call.count == 1; }));
    ASSERT_TRUE(call.is_ok());
  }
  EXPECT_EQ(client->stats().connections_count, 1u);
  client->close_idle();
  ASSERT_TRUE(run_until([&] { return tls_server.last().is_eof; })) << "with a close_notify, not cut";
}

TEST_F(TlsClientTest, ACertificateForAnotherNameIsRefusedBeforeAByteOfTheRequest) {
  Call& call = send_to("auth.example.com");
  connect("auth.example.com");
  ASSERT_TRUE(run_until([&] { return call.count == 1; }));
  expect_failure(call, TMESH_E_TLS_VERIFY, "tls");
  EXPECT_STREQ(call.failure().text, "the certificate is for another name");
  settle();
  EXPECT_EQ(tls_server.last().bytes, "");
}

TEST_F(TlsClientTest, ACertificateOfAnUnknownCaIsRefused) {
  const std::string folder = net::tls_test_folder() + "/other";
  const std::string command = "bash " TMESH_SOURCE_DIR "/tests/support/make_ca.sh " + folder;
  ASSERT_EQ(std::system(command.c_str()), 0);
  net::TlsContext other = std::move(*net::TlsContext::client({"", "", folder + "/ca.pem", false}));
  client->set_tls(other);
  Call& call = send_to("localhost");
  connect("localhost");
  ASSERT_TRUE(run_until([&] { return call.count == 1; }));
  expect_failure(call, TMESH_E_TLS_VERIFY, "tls");
  EXPECT_STREQ(call.failure().text, "the certificate is not signed by a trusted CA");
  settle();
  EXPECT_EQ(tls_server.last().bytes, "");
  drop_client();
}

TEST_F(TlsClientTest, AServerThatSpeaksNoTlsIsAFailure) {
  test::FakeServer plain(loop());
  Call& call = send_to("localhost");
  net::RawClient raw(plain.port());
  fake_dialer.end("localhost", test::FakeDialer::connected(raw.release()));
  ASSERT_TRUE(run_until([&] { return plain.count() == 1 && !plain.last().bytes.empty(); }));
  plain.last().reply("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
  ASSERT_TRUE(run_until([&] { return call.count == 1; }));
  EXPECT_STREQ(call.failure().stage, "tls");
  EXPECT_EQ(plain.last().bytes.find("POST"), std::string::npos);
}

TEST_F(TlsClientTest, AHandshakeThatHangsHitsTheTimeout) {
  test::FakeServer silent(loop());
  Call& call = send_to("localhost");
  net::RawClient raw(silent.port());
  fake_dialer.end("localhost", test::FakeDialer::connected(raw.release()));
  ASSERT_TRUE(run_until([&] { return silent.count() == 1 && !silent.last().bytes.empty(); }));
  timers.advance(3'000'000);
  expect_failure(call, TMESH_E_TIMEOUT, "tls");
}

// A cut may be an attacker's: without close_notify nothing says that this is all.
TEST_F(TlsClientTest, ABodyWithoutLengthNeedsACleanEnd) {
  for (const bool is_clean : {true, false}) {
    Call& call = send_to("localhost");
    connect("localhost");
    const std::size_t n = tls_server.count();
    ASSERT_TRUE(run_until([&] { return tls_server.count() > n && tls_server.last().bytes.ends_with("b"); }));
    tls_server.last().reply("HTTP/1.1 200 OK\r\n\r\nperhaps all");
    settle();
    tls_server.last().transport.close(is_clean);
    ASSERT_TRUE(run_until([&] { return call.count == 1; }));
    EXPECT_EQ(call.answer->has_value(), is_clean);
  }
}

}  // namespace
}  // namespace tmesh::http
