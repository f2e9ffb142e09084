// A folder with configuration files, and a Source over them.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cpp/base/file.hpp"
#include "cpp/config/load.hpp"

namespace tmesh::config {

class ConfigTest : public testing::Test {
 protected:
  ConfigTest() {
    std::string pattern = testing::TempDir() + "tmesh-config-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~ConfigTest() override { std::filesystem::remove_all(folder_); }

  std::string path(std::string_view name) const { return folder_ + "/" + std::string(name); }
  std::string write(std::string_view name, std::string_view text, unsigned mode = 0600) const {
    EXPECT_TRUE(write_file(path(name), text, mode));
    return path(name);
  }
  // The text becomes c.yaml, the file of the next load.
  void file(std::string_view text) { source_.file = write("c.yaml", text); }
  void env(std::string text) { variables_.push_back(std::move(text)); }
  void flag(std::string path, std::string value) { source_.flags.push_back({path, path, std::move(value)}); }
  void fresh() {
    source_ = Source{};
    variables_.clear();
  }

  const Source& source() {
    environment_.clear();
    for (const std::string& v : variables_) environment_.push_back(v.c_str());
    environment_.push_back(nullptr);
    source_.environment = environment_.data();
    return source_;
  }
  Loaded<ServerConfig> server(Purpose purpose = Purpose::check) { return load_server(source(), purpose); }
  Loaded<AgentConfig> agent(Purpose purpose = Purpose::check) { return load_agent(source(), purpose); }
  Loaded<ClientConfig> client(Purpose purpose = Purpose::check) { return load_client(source(), purpose); }

  // Messages with the temporary folder taken out, so that they can be compared whole.
  std::string short_text(std::string text) const {
    const std::string prefix = folder_ + "/";
    for (std::size_t at; (at = text.find(prefix)) != std::string::npos;) text.erase(at, prefix.size());
    return text;
  }
  template <class T>
  std::string errors(const Loaded<T>& loaded) const {
    return short_text(loaded.problems.errors_text());
  }
  // Without the word "warning: ", which problems_test.cpp looks at.
  template <class T>
  std::string warnings(const Loaded<T>& loaded) const {
    std::string text = short_text(loaded.problems.warnings_text());
    for (std::size_t at; (at = text.find("warning: ")) != std::string::npos;) text.erase(at, 9);
    return text;
  }

  std::string folder_;
  Source source_;
  std::vector<std::string> variables_;
  std::vector<const char*> environment_;
};

}  // namespace tmesh::config
