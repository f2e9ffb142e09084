// Links inside TLS: whose certificate is believed, and what a failure says.
#include "tests/cpp/net/tls_files.hpp"
#include "tests/cpp/session/connector_fixture.hpp"

namespace tmesh::session {
namespace {

class ConnectorTlsTest : public ConnectorTest {
 protected:
  ConnectorTlsTest() { server_tls.emplace(std::move(*net::TlsContext::server(net::tls_server_files()))); }
  void trust(const net::TlsFiles& files) { tls.emplace(std::move(*net::TlsContext::client(files))); }
  void dial() {
    serve(&*server_tls);
    start();
  }
  std::optional<net::TlsContext> server_tls;
};

TEST_F(ConnectorTlsTest, ConnectsOverTls) {
  trust(net::tls_client_files());
  dial();
  ASSERT_TRUE(run_until([&] { return server->has_request(0) || done_count > 0; }));
  EXPECT_TRUE(server->last().header("Origin").starts_with("https://localhost"));
  answer(server->last().switching("tunnelmesh.v1") + "early");
  ASSERT_TRUE(connected.has_value());
  EXPECT_EQ(std::string(connected->early.begin(), connected->early.end()), "early");
  EXPECT_NE(connected->transport.tls(), nullptr);
}

TEST_F(ConnectorTlsTest, ACertificateOfAnotherCaIsNamed) {
  const std::string other = net::tls_test_folder() + "/other";
  ASSERT_EQ(std::system(("bash " TMESH_SOURCE_DIR "/tests/support/make_ca.sh " + other).c_str()), 0);
  trust({"", "", other + "/ca.pem", false});
  dial();
  ASSERT_TRUE(run_until([&] { return done_count > 0; }));
  expect_failure("tls", TMESH_E_TLS_VERIFY);
  EXPECT_NE(std::string_view(failure->text).find("trusted CA"), std::string_view::npos);
  EXPECT_TRUE(server->last().bytes.empty()) << "no token before the server is known";
}

TEST_F(ConnectorTlsTest, ACertificateForAnotherNameIsNamed) {
  trust(net::tls_client_files());
  host = "hub.example.com";
  dial();
  ASSERT_TRUE(run_until([&] { return done_count > 0; }));
  expect_failure("tls", TMESH_E_TLS_VERIFY);
  EXPECT_NE(std::string_view(failure->text).find("another name"), std::string_view::npos);
  EXPECT_TRUE(server->last().bytes.empty());
}

TEST_F(ConnectorTlsTest, AServerWithoutTlsIsATlsFailure) {
  trust(net::tls_client_files());
  serve(nullptr);
  start();
  ASSERT_TRUE(run_until([&] { return server->count() == 1 && !server->last().bytes.empty(); }));
  answer("HTTP/1.1 400 Bad Request\r\n\r\n");
  ASSERT_TRUE(failure.has_value());
  EXPECT_STREQ(failure->stage, "tls");
  EXPECT_EQ(failure->http_status, 0) << "no reason to retry without an offer";
}

TEST_F(ConnectorTlsTest, ASilentHandshakeEndsAfterTheTimeout) {
  trust(net::tls_client_files());
  serve(nullptr);
  start();
  ASSERT_TRUE(run_until([&] { return server->count() == 1 && !server->last().bytes.empty(); }));
  timers.advance(Connector::kTimeout_us);
  expect_failure("tls", TMESH_E_TIMEOUT);
}

TEST_F(ConnectorTlsTest, DestroyingCancelsTheHandshake) {
  trust(net::tls_client_files());
  serve(nullptr);
  start();
  ASSERT_TRUE(run_until([&] { return server->count() == 1 && !server->last().bytes.empty(); }));
  connector.reset();
  ASSERT_TRUE(run_until([&] { return server->last().is_eof || server->last().down.has_value(); }));
  EXPECT_EQ(done_count, 0u);
}

}  // namespace
}  // namespace tmesh::session
