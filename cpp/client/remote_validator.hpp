// The real OpenValidator: asks the service behind an entry's auth_url (requirement D10).
//
// The question is a POST of JSON {protocol, agentId, targetHost, targetPort, username?,
// password?}. An answer of 2xx is a yes once its body came whole or passed 64 KiB; every
// other one, no answer in time and every error are a no. Yes and no are kept for their times;
// a no for want of an answer, which 408, 429 and 5xx are as well, for one second at most, so
// that a service that comes back is heard.
//
// Who asks the same at the same time shares one lookup. It is nobody's own: it ends when the
// last of them has gone. More than kLookupsMax at once are a no that is not kept.
//
// Answers are kept under an HMAC of the whole question with a key made at random for the
// process: neither keys nor entries hold a password, a user name or a target. Nothing of a
// question or an answer but its status goes into the log.
//
// Memory: configured entries of some 100 bytes, made when the first tunnel asks; per lookup
// the request, which is wiped. One thread. Outlives the Tickets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>

#include "cpp/base/single_flight.hpp"
#include "cpp/base/ttl_cache.hpp"
#include "cpp/client/open_validator.hpp"
#include "cpp/config/client.hpp"
#include "cpp/http/client.hpp"

namespace tmesh::client {

struct RemoteValidatorStats {
  uint64_t hits_count = 0;        // opens that a kept answer decided
  uint64_t misses_count = 0;      // opens that began a lookup
  uint64_t coalesced_count = 0;   // opens that joined one
  uint64_t over_limit_count = 0;  // opens that would have been one too many
  uint64_t denied_count = 0;      // lookups that the service answered with no
  uint64_t errors_count = 0;      // lookups without an answer
};

class RemoteValidator final : public OpenValidator {
 public:
  RemoteValidator(net::Loop& loop, Timers& timers, Dialer& dialer);
  ~RemoteValidator() override;

  // The certificates that https auth_urls of this configuration need; nothing where there is
  // none. Reads files: not for the loop while traffic flows. The error is one line for a person.
  static std::expected<std::optional<net::TlsContext>, std::string> make_tls(
      const config::ClientConfig& config);
  // Before the first question, and after a reload; tls: what make_tls() made of the same
  // configuration. When auth_urls, what local users have to show, or the settings have changed,
  // every kept answer is dropped, idle connections end, and answers on their way are not kept.
  // Otherwise only new connections are made with the certificates given.
  void configure(const config::ClientConfig& config, std::optional<net::TlsContext> tls);

  Ticket validate(const ValidationRequest& request, Delegate<void(bool is_allowed)> done) override;

  const RemoteValidatorStats& stats() const { return stats_; }
  const http::Client& http() const { return http_; }
  std::size_t kept_count() const { return kept_ ? kept_->size() : 0; }

  // What eight connections to a service that needs 100 ms can answer within three seconds:
  // more would only time out later.
  static constexpr std::size_t kLookupsMax = 256;
  static constexpr uint64_t kErrorTtlMax_us = 1'000'000;  // D10

 private:
  using Flights = SingleFlight<bool>;
  struct Lookup;
  struct Denial;
  using Digest = std::array<uint8_t, 32>;

  Digest digest(std::string_view text) const;
  Digest fingerprint(const config::ClientConfig& config) const;
  std::string key_of(const ValidationRequest& request) const;
  // A no, but not from inside the call.
  Ticket deny(Delegate<void(bool)> done);
  // Null: it cannot be asked.
  Lookup* begin(const std::string& key, const ValidationRequest& request);
  void on_answer(Lookup& lookup, http::ClientAnswer answer);
  void report(const Lookup& lookup, const http::ClientAnswer& answer);
  TtlCache<bool>& kept();

  Timers& timers_;
  const Digest secret_;  // of this process
  std::optional<Digest> fingerprint_;
  config::RemoteValidationSettings settings_;
  std::optional<net::TlsContext> tls_;
  http::Client http_;
  std::unique_ptr<TtlCache<bool>> kept_;
  uint64_t generation_ = 0;  // of what was configured
  std::size_t lookups_count_ = 0;
  bool is_failing_ = false;  // said so in the log
  RemoteValidatorStats stats_;
  Flights flights_;
};

}  // namespace tmesh::client
