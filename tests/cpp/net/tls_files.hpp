// A throw-away CA and a server certificate for localhost, made once per test program.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "cpp/net/tls_context.hpp"

namespace tmesh::net {

inline const std::string& tls_test_folder() {
  static const std::string folder = [] {
    std::string path = ::testing::TempDir() + "tmesh-tls-" + std::to_string(::getpid());
    std::string command = std::string("bash ") + TMESH_SOURCE_DIR "/tests/support/make_ca.sh " + path;
    EXPECT_EQ(std::system(command.c_str()), 0);
    static const std::string cleanup = "rm -rf " + path;
    std::atexit([] { static_cast<void>(!std::system(cleanup.c_str())); });
    return path;
  }();
  return folder;
}

inline TlsFiles tls_server_files() {
  return {tls_test_folder() + "/server.pem", tls_test_folder() + "/server-key.pem", "", false};
}

inline TlsFiles tls_client_files() {
  return {"", "", tls_test_folder() + "/ca.pem", false};
}

}  // namespace tmesh::net
