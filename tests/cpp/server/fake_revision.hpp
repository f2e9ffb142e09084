// A revision that a test steers, behind the interface that the watch polls.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "cpp/server/revision_watch.hpp"

namespace tmesh::test {

// Questions wait until the test answers them.
class FakeRevision final : public server::RevisionSource {
 public:
  Result<Ticket> read_revision(Delegate<void(Result<uint64_t>)> done) override {
    polls_count++;
    if (is_full) return fail(TMESH_E_LIMIT, "refused by the test");
    poll_ = done;
    return Ticket(this, 0, [](void* self, uint64_t) { static_cast<FakeRevision*>(self)->poll_ = {}; });
  }
  Result<Ticket> has_foreign_commits(Delegate<void(Result<std::optional<bool>>)> done) override {
    questions_count++;
    if (is_full) return fail(TMESH_E_LIMIT, "refused by the test");
    question_ = done;
    return Ticket(this, 1, [](void* self, uint64_t) { static_cast<FakeRevision*>(self)->question_ = {}; });
  }

  bool is_asked() const { return static_cast<bool>(poll_); }
  void answer(Result<uint64_t> revision) {
    if (is_asked()) return std::exchange(poll_, {})(revision);
    ADD_FAILURE() << "nothing was asked";
  }
  void fail_poll(tmesh_code code = TMESH_E_IO) { answer(fail(code, "failed by the test")); }
  bool is_questioned() const { return static_cast<bool>(question_); }
  void answer_question(Result<std::optional<bool>> has_commits) {
    if (is_questioned()) return std::exchange(question_, {})(has_commits);
    ADD_FAILURE() << "nothing was asked";
  }

  bool is_full = false;  // refuses questions at once
  int polls_count = 0;
  int questions_count = 0;

 private:
  Delegate<void(Result<uint64_t>)> poll_;
  Delegate<void(Result<std::optional<bool>>)> question_;
};

}  // namespace tmesh::test
