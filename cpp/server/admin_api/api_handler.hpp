// The administration API: an http::Handler for the prefix /api/.
//
// A request is judged on the loop without I/O as far as it can be (path, method, head),
// waits for its turn (ApiAdmission), runs on the database's lane, and is answered. Logins
// have an admission of their own, so that a flood of them holds up nobody who is logged in.
// Owns the requests under way and the thread for passwords; everything else is borrowed.
// Every ten minutes it also has old rows removed that the API left behind.
// Goes before the lane goes. Loop thread.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cpp/base/timers.hpp"
#include "cpp/http/exchange.hpp"
#include "cpp/server/admin_api/api_admission.hpp"
#include "cpp/server/admin_api/api_job.hpp"
#include "cpp/server/admin_api/login_throttle.hpp"
#include "cpp/server/admin_api/password_pool.hpp"
#include "cpp/server/log_gate.hpp"

namespace tmesh::server {

// What the API tells the server.
class ApiEvents {
 public:
  // A change of rights was committed, or may have been; told before the answer is sent.
  virtual void on_rights_changed() = 0;
  // A login failed. `user_id` empty: nobody has that name. For the audit log.
  virtual void on_login_failed(std::string_view user_id) = 0;

 protected:
  ~ApiEvents() = default;
};

struct ApiSettings {
  std::vector<std::string> allowed_hosts;  // exact but for case; empty = any
  std::vector<Cidr> trusted_proxies;
  LoginThrottle::Settings login_throttle;
  uint64_t session_ttl_us = 0;  // 0: sessions do not expire
  std::string node_id;          // of this server
  const SecretBox* secret_box = nullptr;
  ApiAdmission::Limits requests;
  // Logins under way; the password thread's queue keeps places for those who are logged in.
  ApiAdmission::Limits logins{.running_max = 16, .waiting_max = 16, .per_address_max = 16};
};

class ApiFlow;
class LoginFlow;

class ApiHandler final : public http::Handler {
 public:
  // How long a request waits for its turn, and how long it may take in all; then 503. A change
  // that runs then is not undone: under the same Idempotency-Key its reply can be had later.
  static constexpr uint64_t kTurnTimeout_us = 10'000'000;
  static constexpr uint64_t kTimeout_us = 30'000'000;

  struct Parts {
    Timers& timers;
    ApiLane& lane;
    ApiLive& live;
    ApiEvents& events;
  };
  // `routes` outlives it; the row of the login (login_route) is added by itself.
  ApiHandler(Parts parts, std::unique_ptr<PasswordPool> passwords,
             std::initializer_list<std::span<const ApiRoute>> routes, ApiSettings settings);
  ~ApiHandler();
  ApiHandler(const ApiHandler&) = delete;
  ApiHandler& operator=(const ApiHandler&) = delete;

  void on_request(http::Exchange& exchange) override;

  const ApiRoutes& routes() const { return routes_; }
  const PasswordPool& passwords() const { return *passwords_; }
  std::size_t requests_count() const { return flows_.size(); }
  std::size_t logins_count() const { return logins_.size(); }

 private:
  friend class ApiFlow;
  friend class LoginFlow;

  // What an exchange asks for; the answer where it is nothing that a flow must do.
  std::expected<ApiRequest, http::Response> judge(http::Exchange& exchange) const;
  bool is_served_host(std::string_view host) const;
  IpAddress address_of(http::Exchange& exchange) const;
  void start_login(http::Exchange& exchange, const ApiRequest& request);
  void remove(ApiFlow& flow);
  void remove(LoginFlow& flow);
  // Writes the cause of an error down, unless there are too many.
  void log_error(const ApiError& error);

  Timers& timers_;
  ApiLane& lane_;
  ApiLive& live_;
  ApiEvents& events_;
  const ApiSettings settings_;
  const ApiRoutes routes_;
  std::unique_ptr<PasswordPool> passwords_;
  LoginThrottle throttle_;
  ApiAdmission requests_;
  ApiAdmission login_admission_;
  LogGate error_log_;
  std::list<std::unique_ptr<ApiFlow>> flows_;
  std::list<std::unique_ptr<LoginFlow>> logins_;
};

// POST /auth/login: for the tables' union, and for whoever lists the routes.
std::span<const ApiRoute> login_routes();

}  // namespace tmesh::server
