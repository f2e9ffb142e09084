#include "cpp/server/node_identity.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "cpp/base/file.hpp"
#include "tests/cpp/storage/temp_db.hpp"

namespace tmesh::server {
namespace {

const HostPort listen{"10.0.0.1", 443};

TEST(NodeIdentity, TheConfiguredIdComesFirstThenTheFileThenADerivedOne) {
  const test::TempDir dir;
  const std::string path = dir.file("node-id");
  const std::string derived = *node_id({"", path}, listen);
  EXPECT_TRUE(derived.starts_with("server-"));
  EXPECT_EQ(derived.size(), 7U + 32U);
  EXPECT_EQ(*node_id({"", path}, listen), derived) << "the same at every start";
  EXPECT_EQ(*node_id({"", ""}, listen), derived);
  ASSERT_TRUE(write_file(path, "berlin\n", 0644));
  EXPECT_EQ(*node_id({"", path}, listen), "berlin");
  EXPECT_EQ(*node_id({"paris", path}, listen), "paris");
}

TEST(NodeIdentity, AFileWithoutAUsableIdIsAnErrorAndNoOtherIdentity) {
  const test::TempDir dir;
  const std::string path = dir.file("node-id");
  for (const std::string& text : {std::string(), std::string("a b"), std::string(300, 'x')}) {
    ASSERT_TRUE(write_file(path, text, 0644));
    EXPECT_FALSE(node_id({"", path}, listen)) << text;
    EXPECT_FALSE(init_node_id({"", path})) << text;
  }
  EXPECT_FALSE(node_id({"", dir.path()}, listen)) << "a folder";
}

TEST(NodeIdentity, IsDerivedFromMachineHostAndListener) {
  const std::string one = derive_node_id("machine\n", "host", listen);
  EXPECT_EQ(derive_node_id("machine", "host", listen), one);
  EXPECT_NE(derive_node_id("machine2", "host", listen), one);
  EXPECT_NE(derive_node_id("machine", "host2", listen), one);
  EXPECT_NE(derive_node_id("machine", "host", {"10.0.0.1", 444}), one);
  EXPECT_NE(derive_node_id("machine", "host", {"10.0.0.2", 443}), one);
  EXPECT_NE(derive_node_id("", "machinehost", listen), one);
}

TEST(NodeIdentity, InitMakesOneIdAndKeepsIt) {
  const test::TempDir dir;
  const NodeIdSource source{"", dir.file("new/node-id")};
  const auto made = init_node_id(source);
  ASSERT_TRUE(made) << made.error().text;
  EXPECT_TRUE(made->is_new);
  EXPECT_TRUE(made->id.starts_with("server-"));
  const auto again = init_node_id(source);
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->is_new);
  EXPECT_EQ(again->id, made->id);
  EXPECT_EQ(*node_id(source, listen), made->id);
  struct stat info{};
  ASSERT_EQ(::stat(source.path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0644U) << "no secret; the server may be another user";
  EXPECT_EQ(init_node_id({"configured", source.path})->id, "configured");
  EXPECT_FALSE(init_node_id({"", dir.file("a/b/c/node-id")}));
}

TEST(NodeIdentity, AnAddressNamesTheHostWhereTheListenerIsOnAll) {
  EXPECT_EQ(node_address(listen), "10.0.0.1:443");
  EXPECT_EQ(node_address({"::1", 80}), "[::1]:80");
  for (const char* any : {"", "0.0.0.0", "::"}) {
    const std::string address = node_address({any, 80});
    EXPECT_TRUE(address.ends_with(":80"));
    EXPECT_GT(address.size(), 3U);
    EXPECT_EQ(address.find("0.0.0.0"), std::string::npos);
  }
}

}  // namespace
}  // namespace tmesh::server
