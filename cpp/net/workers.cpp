#include "cpp/net/workers.hpp"

#include <unordered_map>

#include "core/loop/workers.h"

namespace tmesh::net {

struct WorkersGlue {
  // First member, so that a tmesh_job* is a Node*; owned by whoever holds the C job:
  // the pool until done or dropped.
  struct Node {
    explicit Node(std::unique_ptr<Workers::Job> typed) : job(typed.release()) {}
    ~Node() { delete job; }
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;

    tmesh_job c{};
    Workers* owner = nullptr;  // outlived by no `done`: a pool that goes drops its jobs
    uint64_t id = 0;
    Workers::Job* job;  // owned; a plain pointer keeps the layout one that C knows
  };
  static_assert(std::is_standard_layout_v<Node>);
  static Node* node_of(tmesh_job* job) { return reinterpret_cast<Node*>(job); }

  static void work(tmesh_job* job) { node_of(job)->job->work(); }
  static void done(tmesh_job* job);
  static void dropped(tmesh_job* job) { delete node_of(job); }
};

struct Workers::Impl {
  tmesh_workers* pool = nullptr;
  uint64_t next_id = 1;
  std::unordered_map<uint64_t, WorkersGlue::Node*> jobs;
};

void WorkersGlue::done(tmesh_job* job) {
  std::unique_ptr<Node> node(node_of(job));
  node->owner->impl_->jobs.erase(node->id);
  node->job->deliver();
}

Result<std::unique_ptr<Workers>> Workers::create(Loop& loop, unsigned threads, std::size_t pending_max) {
  auto impl = std::make_unique<Impl>();
  impl->pool = tmesh_workers_new(loop.raw(), threads, pending_max);
  if (impl->pool == nullptr) return fail(TMESH_E_IO, "cannot start worker threads");
  return std::unique_ptr<Workers>(new Workers(std::move(impl)));
}

Workers::Workers(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

void Workers::end_idle_threads() {
  tmesh_workers_end_idle_threads(impl_->pool);
}

Workers::~Workers() {
  tmesh_workers_free(impl_->pool);
}

Result<Ticket> Workers::submit_job(std::unique_ptr<Job> job) {
  auto node = std::make_unique<WorkersGlue::Node>(std::move(job));
  node->c.work = &WorkersGlue::work;
  node->c.done = &WorkersGlue::done;
  node->c.dropped = &WorkersGlue::dropped;
  node->owner = this;
  node->id = impl_->next_id++;
  tmesh_status st = tmesh_workers_submit(impl_->pool, &node->c);
  if (!tmesh_is_ok(st)) return fail(static_cast<tmesh_code>(st.code), "the workers take no job now");
  uint64_t id = node->id;
  impl_->jobs.emplace(id, node.release());
  return Ticket(this, id, &Workers::cancel);
}

std::size_t Workers::active_count() const {
  return impl_->jobs.size();
}

void Workers::cancel(void* owner, uint64_t id) {
  auto* self = static_cast<Workers*>(owner);
  auto it = self->impl_->jobs.find(id);
  if (it == self->impl_->jobs.end()) return;
  WorkersGlue::Node* node = it->second;
  self->impl_->jobs.erase(it);
  tmesh_workers_cancel(self->impl_->pool, &node->c);
}

}  // namespace tmesh::net
