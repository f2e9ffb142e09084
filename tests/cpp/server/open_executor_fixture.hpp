// Jobs that note when they were started, on a fake clock.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cpp/server/open_executor.hpp"
#include "tests/cpp/agent/fakes.hpp"

namespace tmesh::server {

struct Job final : OpenJob {
  std::function<void()> run;
  int runs = 0;

 private:
  void on_run() override {
    runs++;
    if (run) run();
  }
};

struct OpenExecutorTest : testing::Test {
  using Limits = OpenExecutor::Limits;

  test::FakeTimers timers;
  std::optional<OpenExecutor> made;  // outlives the jobs
  std::vector<std::unique_ptr<Job>> jobs;
  std::vector<std::string> started;

  Job& make(const std::string& name = "") {
    jobs.push_back(std::make_unique<Job>());
    jobs.back()->run = [this, name] { started.push_back(name); };
    return *jobs.back();
  }
  OpenExecutor& with(const Limits& limits) { return made.emplace(timers, limits); }
  void turn() { timers.advance(0); }
};

}  // namespace tmesh::server
