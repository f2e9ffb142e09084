// Questions on their way to the database threads, several at a time.
//
// A hand-over to another thread and a read transaction cost more than an answer, so what
// comes while a batch is in flight goes together with the next hand-over as one batch
// (decision 0012). That is made when a batch comes back, and where several may be in flight
// at the end of this turn of the loop already: the first question of a page goes alone, the
// others behind it as the second batch. A batch's view of the database begins after every
// question in it was asked. Callers of one batch are told in the order of their questions.
// Loop thread only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <list>
#include <span>
#include <utility>
#include <vector>

#include "cpp/base/delegate.hpp"
#include "cpp/base/result.hpp"
#include "cpp/base/ticket.hpp"
#include "cpp/base/timers.hpp"
#include "cpp/server/database_lane.hpp"
#include "cpp/storage/db.hpp"

namespace tmesh::server {

template <class Question, class Answer>
class BatchQueue {
 public:
  // Questions of one batch: other calls of the database wait this long behind it.
  static constexpr std::size_t kBatchMax = 256;

  using Done = Delegate<void(Result<Answer>)>;
  // One answer for each, in their order. Runs on several database threads at a time.
  using Decide = Delegate<std::vector<Result<Answer>>(storage::Db&, std::span<const Question>)>;

  struct Limits {
    std::size_t waiting_max = 4096;  // questions
    std::size_t batches_max = 1;     // in flight: not more than the lane has connections
  };

  // Timers and lane outlive the queue, whose questions are cancelled when it goes.
  BatchQueue(Timers& timers, DatabaseLane& lane, Decide decide, Limits limits)
      : timers_(timers), lane_(lane), decide_(decide), limits_(limits) {}
  ~BatchQueue() {
    if (gone_ != nullptr) *gone_ = true;
  }
  BatchQueue(const BatchQueue&) = delete;
  BatchQueue& operator=(const BatchQueue&) = delete;

  // LIMIT when too many wait.
  Result<Ticket> submit(Question question, Done done) {
    if (waiting_.size() >= limits_.waiting_max) return too_many();
    const uint64_t id = next_id_++;
    waiting_.push_back({{id, done}, std::move(question)});
    if (in_flight_count_ == 0) {  // so nothing else waits
      std::vector<Caller> lost;
      if (!hand_over(lost)) return too_many();
    } else if (in_flight_count_ < limits_.batches_max && !turn_.active()) {
      turn_ = timers_.after(0, Delegate<void()>::template bind<&BatchQueue::on_turn>(this));
    }
    return Ticket(this, id, &BatchQueue::cancel);
  }

  // In flight, or answered and being told.
  std::size_t batches_count() const { return batches_.size(); }

 private:
  struct Caller {
    uint64_t id = 0;
    Done done;  // empty: cancelled, or told
  };
  // Questions that were handed over together.
  struct Batch {
    explicit Batch(BatchQueue& owner) : queue(owner) {}
    void on_answers(std::vector<Result<Answer>> answers) { queue.on_answers(*this, std::move(answers)); }

    BatchQueue& queue;
    std::vector<Caller> callers;  // ids ascend
    Ticket job;
    typename std::list<Batch>::iterator place;
  };
  struct Waiting {
    Caller caller;
    Question question;
  };

  static std::unexpected<Error> too_many() {
    return fail(TMESH_E_LIMIT, "too many calls wait for the database");
  }

  // Takes what waits; false if the lane's own queue is full, and then the callers are lost.
  bool hand_over(std::vector<Caller>& lost) {
    const std::size_t count = std::min(waiting_.size(), kBatchMax);
    Batch& batch = batches_.emplace_back(*this);
    batch.place = std::prev(batches_.end());
    std::vector<Question> questions;
    questions.reserve(count);
    batch.callers.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      batch.callers.push_back(waiting_.front().caller);
      questions.push_back(std::move(waiting_.front().question));
      waiting_.pop_front();
    }
    auto job =
        lane_.submit([decide = decide_, questions = std::move(questions)](
                         storage::Db& db) { return decide(db, std::span<const Question>(questions)); },
                     Delegate<void(std::vector<Result<Answer>>)>::template bind<&Batch::on_answers>(&batch));
    if (!job) {
      lost.insert(lost.end(), batch.callers.begin(), batch.callers.end());
      batches_.pop_back();
      return false;
    }
    batch.job = std::move(*job);
    in_flight_count_++;
    return true;
  }

  void on_turn() {
    turn_.release();
    if (waiting_.empty()) return;
    Batch& lost = batches_.emplace_back(*this);
    lost.place = std::prev(batches_.end());
    hand_over_waiting(lost.callers);
    tell(lost, {});
  }
  void on_answers(Batch& batch, std::vector<Result<Answer>> answers) {
    batch.job.release();
    in_flight_count_--;
    // The threads go on while the callers are told.
    hand_over_waiting(batch.callers);
    tell(batch, std::move(answers));
  }
  // What the threads have no room for is lost: nothing may wait without a batch in flight,
  // whose end would be the next time that anybody looks.
  void hand_over_waiting(std::vector<Caller>& lost) {
    while (!waiting_.empty() && in_flight_count_ < limits_.batches_max && !hand_over(lost)) {
    }
  }

  // Those without an answer are refused.
  void tell(Batch& batch, std::vector<Result<Answer>> answers) {
    answers.resize(batch.callers.size(), too_many());
    bool is_gone = false;
    gone_ = &is_gone;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (const Done done = std::exchange(batch.callers[i].done, {})) done(std::move(answers[i]));
      if (is_gone) return;
    }
    gone_ = nullptr;
    batches_.erase(batch.place);
  }

  static void cancel(void* owner, uint64_t id) {
    auto& self = *static_cast<BatchQueue*>(owner);
    const auto waits =
        std::ranges::lower_bound(self.waiting_, id, {}, [](const Waiting& w) { return w.caller.id; });
    if (waits != self.waiting_.end() && waits->caller.id == id) {
      self.waiting_.erase(waits);
      return;
    }
    for (Batch& batch : self.batches_) {
      const auto found = std::ranges::lower_bound(batch.callers, id, {}, &Caller::id);
      if (found != batch.callers.end() && found->id == id) found->done = {};
    }
  }

  Timers& timers_;
  DatabaseLane& lane_;
  const Decide decide_;
  const Limits limits_;
  uint64_t next_id_ = 1;
  std::list<Batch> batches_;  // in flight, and the one whose callers are being told
  std::size_t in_flight_count_ = 0;
  std::deque<Waiting> waiting_;  // ids ascend; empty while no batch is in flight
  Ticket turn_;
  bool* gone_ = nullptr;  // set by the destructor while callers are being told
};

}  // namespace tmesh::server
