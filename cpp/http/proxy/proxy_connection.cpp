#include "cpp/http/proxy/proxy_connection.hpp"

#include <algorithm>
#include <utility>

#include "cpp/http/response_writer.hpp"

namespace tmesh::http {

using State = MessageReader::State;

namespace {

constexpr std::string_view kConnected = "HTTP/1.1 200 Connection established\r\n\r\n";

}  // namespace

ProxyConnection::ProxyConnection(ProxyIo& io, const ProxyRules& rules, const HostPort& local)
    : io_(io), rules_(rules), local_(local) {}

void ProxyConnection::run() {
  runs_again_ = true;
  if (is_running_) return;
  is_running_ = true;
  while (std::exchange(runs_again_, false)) {
    while (verdict_ == Verdict::running && step()) {
    }
  }
  is_running_ = false;
}

void ProxyConnection::opened() {
  origin_ = Origin::open;
  if (plan_.kind == RequestPlan::Kind::connect) {
    if (!io_.client_send(kConnected)) return end(Verdict::abort);
    end(Verdict::tunnel);
  }
  run();
}

void ProxyConnection::refused(const tmesh_open_result& result) {
  origin_ = Origin::none;
  answer(answer_to_open(result));
  run();
}

void ProxyConnection::origin_broken() {
  if (origin_ != Origin::none) origin_ = Origin::broken;
  run();
}

void ProxyConnection::stop() {
  is_stopping_ = true;
  if (is_idle()) end(Verdict::close);
}

ProxyConnection::Wait ProxyConnection::wait() const {
  if (phase_ == Phase::draining) return Wait::body;
  if (phase_ == Phase::exchange) return Wait::nothing;
  return request_.state() == State::idle ? Wait::request : Wait::head;
}

bool ProxyConnection::step() {
  switch (phase_) {
    case Phase::request:
      return read_request();
    case Phase::draining:
      return drain();
    case Phase::exchange:
      break;
  }
  const bool has_sent = pump_request();
  if (verdict_ != Verdict::running || phase_ != Phase::exchange) return true;
  return pump_response() || has_sent;
}

// --- requests -----------------------------------------------------------------------------

bool ProxyConnection::read_request() {
  if (watch_idle_origin()) return true;
  // Answers of our own need no origin that could slow them down: the client must read them.
  if (io_.client_room() == 0) return false;
  const auto bytes = io_.client_front();
  if (bytes.empty()) {
    if (io_.client_ended()) end(Verdict::close);
    return false;
  }
  const std::size_t used = request_.feed(bytes);
  io_.client_drop(used);
  if (request_.state() == State::failed) {
    plan_ = RequestPlan{};
    refuse(request_.error_status(), ProxyFault::request_malformed);
  } else if (request_.state() != State::head) {
    begin_exchange();
  }
  return true;
}

// What comes between two exchanges belongs to none, and must never become the answer to the next.
bool ProxyConnection::watch_idle_origin() {
  if (origin_ == Origin::none) return false;
  if (origin_ == Origin::open && io_.origin_front().empty() && !io_.origin_ended()) return false;
  let_go_of_origin(origin_ == Origin::open && io_.origin_front().empty());
  return true;
}

void ProxyConnection::begin_exchange() {
  requests_count_++;
  plan_ = plan_request(request_.head(), rules_, local_);
  request_.forget_head();
  switch (plan_.kind) {
    case RequestPlan::Kind::refuse: {
      const bool is_denied = plan_.error_status == 407 || plan_.error_status == 421;
      return refuse(plan_.error_status,
                    is_denied ? ProxyFault::request_denied : ProxyFault::request_malformed);
    }
    case RequestPlan::Kind::here: {
      return answer(Response{});
    }
    case RequestPlan::Kind::connect:
    case RequestPlan::Kind::forward:
      break;
  }
  phase_ = Phase::exchange;
  connect_origin();
}

void ProxyConnection::connect_origin() {
  head_sent_bytes_ = 0;
  response_.next(plan_.is_head_method);
  const bool is_forwarded = plan_.kind == RequestPlan::Kind::forward;
  if (is_forwarded && origin_ == Origin::open && place_ == plan_.target) {
    is_reused_ = true;
    return;
  }
  if (origin_ != Origin::none) let_go_of_origin(true);
  is_reused_ = false;
  origin_ = Origin::opening;
  place_ = plan_.target;
  io_.open_origin(place_);
}

bool ProxyConnection::send_head() {
  const std::string_view rest = std::string_view(plan_.head).substr(head_sent_bytes_);
  if (rest.empty() || io_.origin_room() == 0) return false;
  const std::size_t n = io_.origin_send(rest);
  head_sent_bytes_ += n;
  forget_sent_head();
  return n > 0;
}

// Unless it may have to be sent once more.
void ProxyConnection::forget_sent_head() {
  if (head_sent_bytes_ < plan_.head.size() || (is_reused_ && !has_response_begun_)) return;
  std::string().swap(plan_.head);
  head_sent_bytes_ = 0;
}

bool ProxyConnection::pump_request() {
  // A tunnel's bytes wait until it stands: nothing may go ahead of the answer to CONNECT.
  if (plan_.kind != RequestPlan::Kind::forward) return false;
  // Who does not read any more cannot be sent the rest; it may have answered before.
  if (origin_ == Origin::broken) return false;
  bool has_moved = send_head();
  if (head_sent_bytes_ < plan_.head.size()) return has_moved;
  for (;;) {
    const std::size_t due = std::min(request_due_bytes_, io_.origin_room());
    const std::size_t passed = due == 0 ? 0 : io_.pass_to_origin(due);
    request_due_bytes_ -= passed;
    has_moved |= passed > 0;
    if (request_due_bytes_ > 0 || request_.state() != State::body) return has_moved;
    const auto bytes = io_.client_front();
    if (bytes.empty() && io_.client_ended()) {
      on_request_cut();
      return true;
    }
    const std::size_t n = std::min(bytes.size(), io_.origin_room());
    if (n == 0) return has_moved;
    request_due_bytes_ = request_.feed(bytes.first(n));
    if (request_.state() == State::failed) {
      on_request_cut();
      return true;
    }
  }
}

// The origin must not take what it got for the whole request.
void ProxyConnection::on_request_cut() {
  let_go_of_origin(false);
  if (is_answer_begun_) return end(Verdict::abort);
  plan_.keeps_alive = false;
  refuse(400, ProxyFault::request_malformed);
}

bool ProxyConnection::is_request_sent() const {
  return request_.state() == State::complete && request_due_bytes_ == 0 &&
         head_sent_bytes_ == plan_.head.size();
}

// --- answers --------------------------------------------------------------------------------

bool ProxyConnection::pump_response() {
  if (origin_ != Origin::open && origin_ != Origin::broken) return false;
  bool has_moved = false;
  for (;;) {
    const std::size_t room = io_.client_room();
    const std::size_t due = std::min(response_due_bytes_, room);
    const std::size_t passed = due == 0 ? 0 : io_.pass_to_client(due);
    response_due_bytes_ -= passed;
    has_moved |= passed > 0;
    if (response_due_bytes_ > 0) return has_moved;
    if (response_.state() == State::complete) {
      finish_exchange();
      return true;
    }
    const auto bytes = io_.origin_front();
    if (bytes.empty()) {
      if (origin_ != Origin::broken && !io_.origin_ended()) return has_moved;
      // Only a regular end can be that of a body.
      if (origin_ != Origin::broken) response_.finish();
      if (response_.state() != State::complete) {
        on_origin_failure(ProxyFault::response_incomplete);
        return true;
      }
      continue;
    }
    const std::size_t n = std::min(bytes.size(), room - passed);
    if (n == 0) return has_moved;
    has_moved = has_response_begun_ = true;
    forget_sent_head();
    const bool is_body = response_.state() == State::body;
    const std::size_t used = response_.feed(bytes.first(n));
    if (response_.state() == State::failed) {
      on_origin_failure(ProxyFault::response_malformed);
      return true;
    }
    if (is_body) {
      response_due_bytes_ = used;
      continue;
    }
    io_.origin_drop(used);
    if (response_.state() != State::head && !on_response_head()) return true;
  }
}

// False when the exchange took another turn.
bool ProxyConnection::on_response_head() {
  const bool may_keep = is_request_sent() && !is_stopping_;
  ResponsePlan plan = plan_response(response_.head(), response_.is_until_end(), plan_, rules_, may_keep);
  response_.forget_head();
  const bool can_switch = is_request_sent() && origin_ == Origin::open;
  if (plan.kind == ResponsePlan::Kind::switching && !can_switch) plan.kind = ResponsePlan::Kind::fault;
  const bool is_repeated_continue = plan.kind == ResponsePlan::Kind::interim &&
                                    response_.head().status == 100 && std::exchange(is_continue_sent_, true);
  const bool is_passed_on = plan.kind != ResponsePlan::Kind::fault && plan.kind != ResponsePlan::Kind::skip &&
                            !is_repeated_continue;
  if (is_passed_on && !io_.client_send(plan.head)) {
    end(Verdict::abort);
    return false;
  }
  switch (plan.kind) {
    case ResponsePlan::Kind::fault:
      on_origin_failure(ProxyFault::response_malformed);
      return false;
    case ResponsePlan::Kind::skip:
    case ResponsePlan::Kind::interim:
      response_.next_head();
      return true;
    case ResponsePlan::Kind::switching:
      end(Verdict::tunnel);
      return false;
    case ResponsePlan::Kind::final:
      break;
  }
  is_answer_begun_ = true;
  keeps_client_ = plan.keeps_client;
  keeps_origin_ = plan.keeps_origin;
  return true;
}

void ProxyConnection::finish_exchange() {
  const bool is_at_rest = is_request_sent() && origin_ == Origin::open;
  if (!keeps_origin_ || !is_at_rest) let_go_of_origin(is_at_rest);
  if (!keeps_client_) return end(Verdict::close);
  begin_next();
}

void ProxyConnection::on_origin_failure(ProxyFault fault) {
  let_go_of_origin(false);
  if (is_answer_begun_) return end(Verdict::abort);
  if (!is_reused_ || has_response_begun_) return refuse(502, fault);
  // The origin had ended the connection before the request came. A new one is no used one.
  if (!plan_.is_idempotent || plan_.has_body) return end(Verdict::close);
  connect_origin();
}

// --- answers of our own -------------------------------------------------------------------------

bool ProxyConnection::is_drainable() const {
  if (request_.state() == State::complete) return true;
  // A client that was told to wait may never send it.
  if (request_.state() != State::body || plan_.expects_continue) return false;
  return request_.head().framing == Framing::length && request_.rest_bytes() <= kDrainMaxBytes;
}

void ProxyConnection::refuse(int status, ProxyFault fault) {
  answer(answer_to_fault(status, fault));
}

void ProxyConnection::answer(const Response& response) {
  if (origin_ != Origin::none && phase_ == Phase::exchange) let_go_of_origin(false);
  const bool is_connect = request_.state() != State::failed && request_.head().method == "CONNECT";
  // What comes behind a refused CONNECT may be the tunnel's already; only who was asked for a
  // login surely waits for the answer.
  const bool may_be_tunnel = is_connect && (response.status != 407 || !io_.client_front().empty());
  const bool is_unclear = response.status == 400 || response.status == 421;
  const bool keeps = plan_.keeps_alive && is_drainable() && !is_stopping_ && !may_be_tunnel && !is_unclear;
  const std::string text = serialize(response, plan_.is_head_method, !keeps, http_date(io_.unix_s()));
  if (!io_.client_send(text)) return end(Verdict::abort);
  if (!keeps) return end(Verdict::close);
  // Read by request_ and not passed on: nobody wants them now.
  io_.client_drop(std::exchange(request_due_bytes_, 0));
  phase_ = Phase::draining;
}

bool ProxyConnection::drain() {
  while (request_.state() == State::body) {
    const auto bytes = io_.client_front();
    if (bytes.empty()) {
      if (io_.client_ended()) end(Verdict::close);
      return false;
    }
    io_.client_drop(request_.feed(bytes));
  }
  begin_next();
  return true;
}

// --- transitions -----------------------------------------------------------------------------------

void ProxyConnection::let_go_of_origin(bool is_clean) {
  origin_ = Origin::none;
  io_.close_origin(is_clean);
}

void ProxyConnection::end(Verdict verdict) {
  verdict_ = verdict;
  // At a regular end it waits for another request at most.
  if (verdict == Verdict::close && origin_ != Origin::none) let_go_of_origin(true);
}

void ProxyConnection::begin_next() {
  if (is_stopping_) return end(Verdict::close);
  request_.next();
  response_.next();
  plan_ = RequestPlan{};
  head_sent_bytes_ = 0;
  is_reused_ = has_response_begun_ = is_answer_begun_ = is_continue_sent_ = false;
  keeps_client_ = keeps_origin_ = false;
  phase_ = Phase::request;
}

}  // namespace tmesh::http
