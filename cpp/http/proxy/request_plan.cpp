#include "cpp/http/proxy/request_plan.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "core/proto/base64.h"
#include "cpp/base/parse.hpp"
#include "cpp/http/proxy/hop_fields.hpp"
#include "cpp/http/proxy/target.hpp"

namespace tmesh::http {
namespace {

// RFC 1929's lengths, to which Basic keeps here, and the colon.
constexpr std::size_t kLoginMaxBytes = 255 + 1 + 255;

// They are kept for the exchange, and those of the answer are looked for among them. Programs ask
// for one; registered names are far shorter.
constexpr std::size_t kUpgradesMaxCount = 8;
constexpr std::size_t kUpgradeMaxBytes = 64;

// Protocols of the whole connection, not of what is behind the proxy: HTTP/2 in the clear
// (LESSONS P-J8), other versions of HTTP, TLS (RFC 2817).
bool is_forwarded_upgrade(std::string_view protocol) {
  constexpr std::array<std::string_view, 2> kHopFamilies = {"http/", "tls/"};
  return protocol.size() <= kUpgradeMaxBytes && is_token(protocol.substr(0, protocol.find('/'))) &&
         !equals_ignoring_case(protocol, "h2c") && !equals_ignoring_case(protocol, "h2") &&
         std::none_of(kHopFamilies.begin(), kHopFamilies.end(), [protocol](std::string_view family) {
           return equals_ignoring_case(protocol.substr(0, family.size()), family);
         });
}

bool is_idempotent_method(std::string_view method) {
  constexpr std::array<std::string_view, 6> kMethods = {"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"};
  return std::find(kMethods.begin(), kMethods.end(), method) != kMethods.end();
}

class Planner {
 public:
  Planner(const MessageHead& head, const ProxyRules& rules, const HostPort& local)
      : head_(head), rules_(rules), local_(local), hops_(head.fields) {}

  RequestPlan run() {
    plan_.is_http_1_0 = head_.minor_version == 0;
    plan_.is_head_method = head_.method == "HEAD";
    plan_.is_idempotent = is_idempotent_method(head_.method);
    plan_.has_body = head_.framing == Framing::chunked || head_.content_length_bytes > 0;
    plan_.expects_continue =
        !plan_.is_http_1_0 && plan_.has_body && head_.fields.has_token("expect", "100-continue");
    // HTTP/1.0 clients that ask for keep-alive are rare; closing is always right there. So it
    // is where another protocol was asked for and is not spoken: what the client sent behind
    // the request may be of that one.
    const bool asks_for_upgrade = hops_.is_upgrade() && head_.fields.find("upgrade") != nullptr;
    plan_.keeps_alive = !plan_.is_http_1_0 && !hops_.is_close() && !asks_for_upgrade;
    const int status = judge();
    if (status != 0) {
      plan_.kind = RequestPlan::Kind::refuse;
      plan_.error_status = status;
    }
    return std::move(plan_);
  }

 private:
  // 0, or the status to refuse with.
  int judge() {
    const std::size_t hosts = head_.fields.count("host");
    if (hosts > 1 || (hosts == 0 && !plan_.is_http_1_0) || hops_.is_malformed()) return 400;
    const std::string* host = head_.fields.find("host");
    if (host != nullptr && !host->empty() && !parse_authority(*host, 80)) return 400;
    return rules_.is_gateway ? judge_for_gateway(host) : judge_for_proxy();
  }

  int judge_for_proxy() {
    if (rules_.has_login && !is_login_shown()) return 407;
    if (head_.method == "CONNECT") return judge_connect();
    if (head_.target == "*" && head_.method == "OPTIONS") return answer_here();
    const auto form = parse_absolute_form(head_.target, head_.method == "OPTIONS");
    if (!form) return 400;
    plan_.target = form->place;
    return forward(form->authority, form->origin_form);
  }

  int judge_connect() {
    const auto target = parse_connect_target(head_.target);
    if (!target || plan_.has_body) return 400;
    plan_.kind = RequestPlan::Kind::connect;
    plan_.target = *target;
    return 0;
  }

  int judge_for_gateway(const std::string* host) {
    std::string authority = host == nullptr ? std::string() : *host;
    std::string origin_form = head_.target;
    if (const auto form = parse_absolute_form(head_.target, head_.method == "OPTIONS")) {
      authority = form->authority;
      origin_form = form->origin_form;
    } else if (!is_origin_form(head_.target) && (head_.target != "*" || head_.method != "OPTIONS")) {
      return 400;
    }
    if (!is_own_host(authority)) return 421;
    plan_.own_origin = "http://" + authority;
    plan_.target = rules_.target;
    return forward(rules_.target_authority(), origin_form);
  }

  // A page of another site whose name was made to point here must not reach the target.
  bool is_own_host(std::string_view authority) const {
    const auto said = parse_authority(authority, 80);
    if (!said) return false;
    const std::string name = ascii_lower(said->host);
    if (name == "localhost") return true;
    const auto ip = parse_ip(name);
    if (ip && said->port == local_.port && format_ip(*ip) == local_.host) return true;
    return std::any_of(rules_.hosts.begin(), rules_.hosts.end(), [&](const std::string& host) {
      return host == name || parse_host_port(host) == HostPort{name, said->port};
    });
  }

  bool is_login_shown() const {
    constexpr std::string_view kScheme = "basic ";
    if (head_.fields.count("proxy-authorization") != 1) return false;
    const std::string_view value = *head_.fields.find("proxy-authorization");
    if (!equals_ignoring_case(value.substr(0, kScheme.size()), kScheme)) return false;
    const std::string_view text = trim(value.substr(kScheme.size()));
    std::array<uint8_t, kLoginMaxBytes> shown{};
    std::size_t shown_len = 0;
    const bool is_sound =
        tmesh_base64_decode(shown.data(), shown.size(), &shown_len, text.data(), text.size());
    std::string wanted = rules_.username + ":";
    wanted.append(rules_.password.reveal());
    const bool is_same =
        is_sound && equal_constant_time({reinterpret_cast<const char*>(shown.data()), shown_len}, wanted);
    secure_wipe(wanted);
    secure_wipe(shown.data(), shown.size());
    return is_same;
  }

  int answer_here() {
    plan_.kind = RequestPlan::Kind::here;
    return 0;
  }

  // RFC 9110 section 7.6.2: the last hop that may be taken was the one to us.
  bool is_last_hop(std::string& max_forwards) const {
    if (head_.method != "OPTIONS" && head_.method != "TRACE") return false;
    const std::string* const value = head_.fields.find("max-forwards");
    if (value == nullptr) return false;
    const auto hops = parse_uint(*value);
    if (!hops) return false;
    if (*hops > 0) max_forwards = std::to_string(*hops - 1);
    return *hops == 0;
  }

  int forward(std::string_view authority, std::string_view origin_form) {
    std::string max_forwards;
    if (is_last_hop(max_forwards)) return head_.method == "TRACE" ? 405 : answer_here();
    plan_.kind = RequestPlan::Kind::forward;
    // With a body it could not be told where the other protocol begins.
    if (hops_.is_upgrade() && !plan_.is_http_1_0 && !plan_.has_body) {
      for (std::string& protocol : list_items(head_.fields, "upgrade")) {
        if (plan_.upgrades.size() == kUpgradesMaxCount) break;
        if (is_forwarded_upgrade(protocol)) plan_.upgrades.push_back(std::move(protocol));
      }
    }
    std::string& out = plan_.head;
    out.append(head_.method).append(" ").append(origin_form);
    // A client of HTTP/1.0 could not read the chunks that an answer to HTTP/1.1 may have.
    out.append(plan_.is_http_1_0 ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n");
    append_field(out, "Host", authority);
    for (const Header& field : head_.fields) {
      if (equals_ignoring_case(field.name, "host") || hops_.drops(field.name)) continue;
      if (plan_.is_http_1_0 && equals_ignoring_case(field.name, "expect")) continue;
      if (!max_forwards.empty() && equals_ignoring_case(field.name, "max-forwards")) {
        append_field(out, field.name, max_forwards);
      } else {
        append_field(out, field.name, rules_.is_gateway ? translated(field) : field.value);
      }
    }
    append_options(out);
    out.append("\r\n");
    return 0;
  }

  // What a page of the gateway says about itself is said in the target's words, so that its
  // checks for requests from its own pages keep their meaning; other sites stay what they are.
  std::string translated(const Header& field) const {
    const bool is_origin = equals_ignoring_case(field.name, "origin");
    if (!is_origin && !equals_ignoring_case(field.name, "referer")) return field.value;
    const std::string& own = plan_.own_origin;
    if (!equals_ignoring_case(std::string_view(field.value).substr(0, own.size()), own)) return field.value;
    const std::string rest = field.value.substr(own.size());
    const bool is_whole = rest.empty() || (!is_origin && (rest[0] == '/' || rest[0] == '?'));
    return is_whole ? rules_.target_origin() + rest : field.value;
  }

  void append_options(std::string& out) const {
    std::string options;
    const auto add = [&options](std::string_view option) {
      options.append(options.empty() ? "" : ", ").append(option);
    };
    // Nothing else will come over the connection, and its server may know that.
    if (!plan_.keeps_alive && plan_.upgrades.empty()) add("close");
    if (!plan_.upgrades.empty()) {
      add("Upgrade");
      std::string protocols;
      for (const std::string& protocol : plan_.upgrades) {
        protocols.append(protocols.empty() ? "" : ", ").append(protocol);
      }
      append_field(out, "Upgrade", protocols);
    }
    // Trailers pass; other transfer codings do not.
    const std::vector<std::string> codings = list_items(head_.fields, "te");
    const bool has_trailers = std::any_of(codings.begin(), codings.end(), [](const std::string& coding) {
      return equals_ignoring_case(coding, "trailers");
    });
    if (has_trailers && !plan_.is_http_1_0) {
      append_field(out, "TE", "trailers");
      add("TE");
    }
    if (!options.empty()) append_field(out, "Connection", options);
  }

  const MessageHead& head_;
  const ProxyRules& rules_;
  const HostPort& local_;
  const HopOptions hops_;
  RequestPlan plan_;
};

}  // namespace

RequestPlan plan_request(const MessageHead& head, const ProxyRules& rules, const HostPort& local) {
  return Planner(head, rules, local).run();
}

}  // namespace tmesh::http
