#include "cpp/client/remote_validator.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "core/base/check.h"
#include "core/wire/digest.h"
#include "cpp/base/json.hpp"
#include "cpp/base/log.hpp"
#include "cpp/base/random.hpp"
#include "cpp/base/utf8.hpp"

namespace tmesh::client {
namespace {

std::array<uint8_t, 32> random_secret() {
  std::array<uint8_t, 32> bytes{};
  random_bytes(bytes);
  return bytes;
}

http::ClientOptions http_options() {
  http::ClientOptions options;
  options.max_requests = RemoteValidator::kLookupsMax;
  return options;
}

// Texts one after the other in one allocation that is wiped; the length goes first, so that
// no two lists look alike.
class Parts {
 public:
  explicit Parts(std::size_t bytes_max) { text_.reserve(bytes_max); }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() { secure_wipe(text_); }

  Parts& add(uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) text_ += static_cast<char>(number >> shift & 0xff);
    return *this;
  }
  Parts& add(std::string_view part) {
    add(uint64_t{part.size()});
    text_.append(part);
    return *this;
  }
  std::string_view text() const { return text_; }

 private:
  std::string text_;
};

std::string body_of(const ValidationRequest& request) {
  std::string body;
  // Room for every byte to become an escape: a reallocation would leave a password behind.
  body.reserve(256 + 6 * (request.agent_id.size() + request.target_host.size() + request.username.size() +
                          request.password.size()));
  json::Writer writer(body);
  writer.begin_object()
      .member("protocol", request.protocol)
      .member("agentId", request.agent_id)
      .member("targetHost", request.target_host)
      .member("targetPort", unsigned{request.target_port});
  if (!request.username.empty() || !request.password.empty()) {
    writer.member("username", request.username).member("password", request.password);
  }
  writer.end_object();
  return body;
}

// JSON has no way to say anything else, and what it would say instead could be another's.
bool can_be_said(const ValidationRequest& request) {
  return utf8_valid(request.agent_id) && utf8_valid(request.target_host) && utf8_valid(request.username) &&
         utf8_valid(request.password);
}

bool is_yes(int status) {
  return status >= 200 && status < 300;
}

// Statuses that say "not now" and nothing about the question.
bool is_no_answer(int status) {
  return status >= 500 || status == 408 || status == 429;
}

}  // namespace

// A question on its way.
struct RemoteValidator::Lookup final : Flights::Flight {
  explicit Lookup(RemoteValidator& validator) : owner(validator) { owner.lookups_count_++; }
  ~Lookup() override { owner.lookups_count_--; }
  void on_answer(http::ClientAnswer answer) { owner.on_answer(*this, std::move(answer)); }

  RemoteValidator& owner;
  std::string key;
  std::string protocol;
  uint64_t generation = 0;
  uint64_t begun_us = 0;
  Ticket request;
};

// A no that is known already.
struct RemoteValidator::Denial final : Flights::Flight {
  explicit Denial(RemoteValidator& validator) : owner(validator) {}
  void on_time() {
    timer.release();
    owner.flights_.end(*this, false, [] { return true; });
  }

  RemoteValidator& owner;
  Ticket timer;
};

RemoteValidator::RemoteValidator(net::Loop& loop, Timers& timers, Dialer& dialer)
    : timers_(timers), secret_(random_secret()), http_(loop, timers, dialer, http_options()) {}

RemoteValidator::~RemoteValidator() = default;

RemoteValidator::Digest RemoteValidator::digest(std::string_view text) const {
  static_assert(std::tuple_size_v<Digest> == TMESH_SHA256_BYTES);
  Digest out{};
  tmesh_hmac_sha256(out.data(), secret_.data(), secret_.size(), text.data(), text.size());
  return out;
}

RemoteValidator::Digest RemoteValidator::fingerprint(const config::ClientConfig& config) const {
  std::set<std::string_view> urls;
  std::size_t bytes = 0;
  for (const config::Tunnel& tunnel : config.tunnels) {
    if (!tunnel.auth_url.empty() && urls.insert(tunnel.auth_url).second) bytes += 8 + tunnel.auth_url.size();
  }
  const config::RemoteValidationSettings& settings = config.remote_validation;
  const std::string_view shown[] = {config.socks5.username, config.socks5.password.reveal(),
                                    config.http_proxy.username, config.http_proxy.password.reveal(),
                                    settings.ca_file};
  for (const std::string_view part : shown) bytes += 8 + part.size();
  Parts parts(bytes + 6 * 8);
  for (const std::string_view part : shown) parts.add(part);
  for (const uint64_t number : {settings.positive_ttl_us, settings.negative_ttl_us, settings.timeout_us,
                                settings.entries_max, uint64_t{urls.size()}}) {
    parts.add(number);
  }
  for (const std::string_view url : urls) parts.add(url);
  return digest(parts.text());
}

std::expected<std::optional<net::TlsContext>, std::string> RemoteValidator::make_tls(
    const config::ClientConfig& config) {
  const bool is_needed = std::any_of(config.tunnels.begin(), config.tunnels.end(), [](const auto& tunnel) {
    const Result<Url> url = parse_http_url(tunnel.auth_url);
    return url && url->is_tls;
  });
  if (!is_needed) return std::nullopt;
  auto tls = net::TlsContext::client({"", "", config.remote_validation.ca_file, false});
  if (!tls) return std::unexpected("client.remote_validation.ca_file: " + tls.error());
  return std::optional(std::move(*tls));
}

void RemoteValidator::configure(const config::ClientConfig& config, std::optional<net::TlsContext> tls) {
  // New in any case; connections that exist keep what they were made with. They stay where they
  // are, needed or not: questions that are under way borrow them.
  if (tls) {
    tls_ = std::move(*tls);
    http_.set_tls(*tls_);
  }
  const Digest fresh = fingerprint(config);
  const bool is_changed = fingerprint_ != fresh;
  if (is_changed || tls) http_.close_idle();
  if (!is_changed) return;
  fingerprint_ = fresh;
  settings_ = config.remote_validation;
  generation_++;
  kept_.reset();
}

TtlCache<bool>& RemoteValidator::kept() {
  if (!kept_) kept_ = std::make_unique<TtlCache<bool>>(static_cast<std::size_t>(settings_.entries_max));
  return *kept_;
}

std::string RemoteValidator::key_of(const ValidationRequest& request) const {
  Parts parts(8 * 8 + request.url.size() + request.protocol.size() + request.agent_id.size() +
              request.target_host.size() + request.username.size() + request.password.size());
  parts.add(request.url).add(request.protocol).add(request.agent_id).add(request.target_host);
  parts.add(uint64_t{request.target_port}).add(request.username).add(request.password).add(generation_);
  const Digest out = digest(parts.text());
  return {reinterpret_cast<const char*>(out.data()), out.size()};
}

Ticket RemoteValidator::validate(const ValidationRequest& request, Delegate<void(bool is_allowed)> done) {
  if (request.url.empty()) return {};
  const std::string key = key_of(request);
  if (const bool* is_allowed = kept().find(key, timers_.now_us())) {
    stats_.hits_count++;
    return *is_allowed ? Ticket() : deny(done);
  }
  if (Flights::Flight* const under_way = flights_.find(key)) {
    stats_.coalesced_count++;
    return flights_.join(*under_way, done);
  }
  if (lookups_count_ >= kLookupsMax) {
    stats_.over_limit_count++;
    return deny(done);
  }
  stats_.misses_count++;
  Lookup* const lookup = begin(key, request);
  return lookup == nullptr ? deny(done) : flights_.join(*lookup, done);
}

RemoteValidator::Lookup* RemoteValidator::begin(const std::string& key, const ValidationRequest& request) {
  auto made = std::make_unique<Lookup>(*this);
  Lookup& lookup = *made;
  lookup.key = key;
  lookup.protocol = request.protocol;
  lookup.generation = generation_;
  lookup.begun_us = timers_.now_us();
  const auto give_up = [&](const Error& why) {
    report(lookup, std::unexpected(http::ClientFailure{why.code, "request", why.text}));
    return nullptr;
  };
  Result<Url> url = parse_http_url(request.url);
  if (!url) return give_up(url.error());
  if (!can_be_said(request)) return give_up({TMESH_E_INVALID, TMESH_SCOPE_STREAM, "JSON carries UTF-8 only"});
  http::ClientRequest question;
  question.method = http::Method::post;
  question.url = std::move(*url);
  question.headers = {{"Content-Type", "application/json"},
                      {"User-Agent", "tunnelmesh-client/" TMESH_VERSION}};
  question.body = body_of(request);
  question.timeout_us = settings_.timeout_us;
  question.is_repeatable = true;  // it asks and changes nothing
  flights_.begin(key, std::move(made));
  auto sent = http_.send(std::move(question), http::Client::Done::bind<&Lookup::on_answer>(&lookup));
  if (!sent) {
    give_up(sent.error());
    flights_.abandon(lookup);
    return nullptr;
  }
  lookup.request = std::move(*sent);
  return &lookup;
}

Ticket RemoteValidator::deny(Delegate<void(bool)> done) {
  auto made = std::make_unique<Denial>(*this);
  Denial& denial = *made;
  flights_.begin({}, std::move(made));
  denial.timer = timers_.after(0, Delegate<void()>::bind<&Denial::on_time>(&denial));
  return flights_.join(denial, done);
}

void RemoteValidator::on_answer(Lookup& lookup, http::ClientAnswer answer) {
  lookup.request.release();
  const int status = answer ? answer->status : 0;
  const bool is_answer = answer && !is_no_answer(status);
  const bool is_allowed = is_yes(status);
  report(lookup, answer);
  if (lookup.generation == generation_) {
    const uint64_t no_ttl_us =
        is_answer ? settings_.negative_ttl_us : std::min(settings_.negative_ttl_us, kErrorTtlMax_us);
    kept().put(lookup.key, is_allowed,
               timers_.now_us() + (is_allowed ? settings_.positive_ttl_us : no_ttl_us));
  }
  // As the last thing: a caller may destroy everything.
  flights_.end(lookup, is_allowed, [] { return true; });
}

// Counts it, and says so: an outage once, single questions at level debug.
void RemoteValidator::report(const Lookup& lookup, const http::ClientAnswer& answer) {
  const int status = answer ? answer->status : 0;
  const bool is_answer = answer && !is_no_answer(status);
  const bool is_allowed = is_yes(status);
  log::debug("remote_validation", {{"protocol", lookup.protocol},
                                   {"allowed", is_allowed},
                                   {"status", status},
                                   {"after_us", timers_.now_us() - lookup.begun_us}});
  if (is_answer) {
    stats_.denied_count += is_allowed ? 0 : 1;
    if (std::exchange(is_failing_, false)) log::info("remote_validation_works");
    return;
  }
  stats_.errors_count++;
  const auto level = std::exchange(is_failing_, true) ? log::Level::debug : log::Level::warn;
  if (answer) {
    log::write(level, "remote_validation_failed", {{"stage", "status"}, {"status", status}});
  } else {
    log::write(level, "remote_validation_failed",
               {{"stage", answer.error().stage},
                {"reason", tmesh_code_name(answer.error().code)},
                {"text", answer.error().text}});
  }
}

}  // namespace tmesh::client
