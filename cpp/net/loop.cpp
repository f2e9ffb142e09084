#include "cpp/net/loop.hpp"

#include <ctime>

#include "core/base/check.h"
#include "core/loop/loop.h"
#include "cpp/net/timer_heap.hpp"

namespace tmesh::net {

struct Loop::Impl {
  tmesh_loop loop{};
  TimerHeap timers;
  // One uv_timer for the earliest deadline only wakes the loop; the check handle,
  // which runs behind the poll, calls the timers. The idle handle keeps that one
  // poll from blocking.
  uv_timer_t wake{};
  uv_check_t check{};
  uv_idle_t spin{};
  uint64_t armed_us = UINT64_MAX;
  bool is_closed = false;

  void arm();
  void disarm();
  void run_due();
};

void Loop::Impl::arm() {
  std::optional<uint64_t> next = timers.next_us();
  if (!next) {
    disarm();
    return;
  }
  if (*next == armed_us) return;
  armed_us = *next;
  uint64_t now = tmesh_loop_now_us(&loop);
  uint64_t wait_ms = armed_us > now ? (armed_us - now + 999) / 1000 : 0;
  auto on_wake = [](uv_timer_t* timer) {
    auto* self = static_cast<Impl*>(timer->data);
    self->armed_us = UINT64_MAX;
    uv_idle_start(&self->spin, [](uv_idle_t*) {});
  };
  int rc = uv_timer_start(&wake, on_wake, wait_ms, 0);
  TMESH_ASSERT(rc == 0);
}

void Loop::Impl::disarm() {
  armed_us = UINT64_MAX;
  uv_timer_stop(&wake);
  uv_idle_stop(&spin);
}

void Loop::Impl::run_due() {
  uint64_t mark = timers.mark();
  uint64_t now = tmesh_loop_now_us(&loop);
  while (Delegate<void()> done = timers.take_due(now, mark)) {
    done();
    if (is_closed) return;
  }
  uv_idle_stop(&spin);
  arm();
}

Result<std::unique_ptr<Loop>> Loop::create(std::size_t memory_budget_bytes) {
  auto impl = std::make_unique<Impl>();
  tmesh_status st = tmesh_loop_init(&impl->loop, memory_budget_bytes);
  if (!tmesh_is_ok(st)) return fail(static_cast<tmesh_code>(st.code), "cannot create the event loop");
  uv_loop_t* uv = &impl->loop.uv;
  int rc = uv_timer_init(uv, &impl->wake);
  if (rc == 0) rc = uv_check_init(uv, &impl->check);
  if (rc == 0) rc = uv_idle_init(uv, &impl->spin);
  TMESH_ASSERT(rc == 0);  // none of these can fail on a loop that exists
  impl->wake.data = impl.get();
  impl->check.data = impl.get();
  rc = uv_check_start(&impl->check, [](uv_check_t* check) { static_cast<Impl*>(check->data)->run_due(); });
  TMESH_ASSERT(rc == 0);
  uv_unref(reinterpret_cast<uv_handle_t*>(&impl->check));
  return std::unique_ptr<Loop>(new Loop(std::move(impl)));
}

Loop::Loop(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Loop::~Loop() {
  if (!impl_->is_closed) {
    bool is_clean = close();
    TMESH_ASSERT(is_clean);
  }
}

void Loop::run() {
  tmesh_loop_run(&impl_->loop);
}

void Loop::stop() {
  tmesh_loop_stop(&impl_->loop);
}

bool Loop::run_once() {
  return uv_run(&impl_->loop.uv, UV_RUN_ONCE) != 0;
}

bool Loop::close() {
  TMESH_ASSERT(!impl_->is_closed);
  impl_->is_closed = true;
  impl_->timers.clear();
  for (uv_handle_t* handle :
       {reinterpret_cast<uv_handle_t*>(&impl_->wake), reinterpret_cast<uv_handle_t*>(&impl_->check),
        reinterpret_cast<uv_handle_t*>(&impl_->spin)}) {
    uv_close(handle, nullptr);
  }
  return tmesh_loop_close(&impl_->loop);
}

tmesh_loop* Loop::raw() {
  return &impl_->loop;
}

tmesh_pool* Loop::pool() {
  return &impl_->loop.pool;
}

std::size_t Loop::timer_count() const {
  return impl_->timers.size();
}

void Loop::set_stalled_close_us(uint64_t us) {
  impl_->loop.stalled_close_us = us;
}

uint64_t Loop::now_us() const {
  return tmesh_loop_now_us(&impl_->loop);
}

int64_t Loop::wall_us() const {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000;
}

Ticket Loop::after(uint64_t delay_us, Delegate<void()> done) {
  TMESH_ASSERT(!impl_->is_closed);
  uint64_t now = now_us();
  uint64_t due = delay_us > UINT64_MAX - now ? UINT64_MAX : now + delay_us;
  uint64_t id = impl_->timers.add(due, done);
  impl_->arm();
  return Ticket(this, id, &Loop::cancel_timer);
}

void Loop::cancel_timer(void* owner, uint64_t id) {
  auto* self = static_cast<Loop*>(owner);
  if (self->impl_->timers.cancel(id)) self->impl_->arm();
}

}  // namespace tmesh::net
