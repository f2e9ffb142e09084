// Rules of client.tunnels[] (INTERFACE 5.2, requirement J5).
#include <algorithm>
#include <array>
#include <filesystem>
#include <span>

#include "core/base/check.h"
#include "cpp/base/parse.hpp"
#include "cpp/base/url.hpp"
#include "cpp/config/build.hpp"

namespace tmesh::config {
namespace {

constexpr std::size_t kTunnelsMax = 256;  // each has a listener; far beyond any described use

constexpr std::array<std::string_view, 5> kProtocolNames = {"tcp", "udp", "http", "socks5", "http-proxy"};

Tunnel::Protocol protocol_from(std::string_view name) {
  for (std::size_t i = 0; i < kProtocolNames.size(); ++i) {
    if (kProtocolNames[i] == name) return static_cast<Tunnel::Protocol>(i);
  }
  return Tunnel::Protocol::socks5;
}

Tunnel::Auth auth_from(std::string_view name) {
  if (name == "password") return Tunnel::Auth::password;
  return name == "basic" ? Tunnel::Auth::basic : Tunnel::Auth::none;
}

bool is_proxy(Tunnel::Protocol protocol) {
  return protocol == Tunnel::Protocol::socks5 || protocol == Tunnel::Protocol::http_proxy;
}

// One element and where its problems go.
class TunnelBuilder {
 public:
  TunnelBuilder(Build& build, const Element& element) : build_(build), element_(element) {}

  Tunnel run(std::size_t index) {
    tunnel_.name = element_.text("name");
    if (tunnel_.name.empty()) tunnel_.name = "tunnel-" + std::to_string(index + 1);
    tunnel_.protocol = protocol_from(element_.text("protocol"));
    tunnel_.agent_id = element_.text("agent_id");
    tunnel_.target_host = element_.text("target_host");
    tunnel_.target_port = static_cast<uint16_t>(element_.number("target_port"));
    tunnel_.is_target_https = element_.text("target_scheme") == "https";
    tunnel_.tls_server_name = element_.text("tls_server_name");
    tunnel_.auth = auth_from(element_.text("auth_mode"));
    tunnel_.auth_url = element_.text("auth_url");
    tunnel_.allow_remote = element_.boolean("allow_remote");
    for (const std::string& host : element_.list("hosts")) tunnel_.hosts.push_back(ascii_lower(host));
    tunnel_.socket_owner = element_.text("socket_owner");
    tunnel_.socket_mode = octal(element_.text("socket_mode"));
    listen();
    require("protocol");
    require("agent_id");
    if (!is_given("protocol")) return std::move(tunnel_);
    unix_socket();
    target();
    auth();
    remote();
    auth_url();
    return std::move(tunnel_);
  }

 private:
  static uint32_t octal(std::string_view text) {
    uint32_t value = 0;
    for (const char digit : text) value = value * 8 + static_cast<uint32_t>(digit - '0');
    return value;
  }

  void error(std::string_view name, std::string message) {
    build_.problems.error(element_.where(name), shown(name), std::move(message));
  }
  void warn(std::string_view name, std::string message) {
    build_.problems.warn(element_.where(name), shown(name), std::move(message));
  }
  // A `forward` command knows no list, only its flags.
  std::string shown(std::string_view name) const {
    const bool is_flag = element_.origin.kind == Origin::Kind::flag;
    return is_flag ? std::string(name) : element_.path + "." + std::string(name);
  }
  bool is_refused(std::string_view name) const {
    const Setting* setting = element_.find(name);
    return setting != nullptr && setting->is_refused;
  }
  // Set to a valid value that is not empty.
  bool is_given(std::string_view name) const {
    return element_.has(name) && !is_refused(name) && !element_.text(name).empty();
  }
  void require(std::string_view name) {
    if (!is_given(name) && !is_refused(name)) error(name, "is required");
  }

  void listen() {
    constexpr std::string_view scheme = "unix:";
    require("listen");
    const std::string_view text = element_.text("listen");
    if (text.starts_with(scheme)) {
      tunnel_.socket_path = text.substr(scheme.size());
    } else if (const Result<HostPort> parsed = parse_host_port(text)) {
      tunnel_.listen = *parsed;
    }
  }

  void unix_socket() {
    if (tunnel_.socket_path.empty()) {
      for (const char* name : {"socket_mode", "socket_owner"}) {
        if (is_given(name)) warn(name, "has no effect without a Unix socket");
      }
    } else if (tunnel_.protocol == Tunnel::Protocol::udp || tunnel_.protocol == Tunnel::Protocol::http) {
      error("listen", "must be host:port with this protocol");
    }
  }

  void target() {
    const bool is_http = tunnel_.protocol == Tunnel::Protocol::http;
    if (!is_http && is_given("target_scheme")) error("target_scheme", "needs protocol http");
    if (!is_http && is_given("hosts")) warn("hosts", "has no effect with this protocol");
    if (is_given("tls_server_name") && !(is_http && tunnel_.is_target_https)) {
      error("tls_server_name", "needs target_scheme https");
    }
    if (!is_proxy(tunnel_.protocol)) {
      require("target_host");
      if (tunnel_.target_port == 0 && !is_refused("target_port")) error("target_port", "is required");
      return;
    }
    for (const char* name : {"target_host", "target_port"}) {
      if (is_given(name)) warn(name, "has no effect with this protocol");
    }
  }

  void auth() {
    const bool is_allowed =
        tunnel_.auth == Tunnel::Auth::none ||
        (tunnel_.auth == Tunnel::Auth::password && tunnel_.protocol == Tunnel::Protocol::socks5) ||
        (tunnel_.auth == Tunnel::Auth::basic && tunnel_.protocol == Tunnel::Protocol::http_proxy);
    if (is_allowed) return;
    switch (tunnel_.protocol) {
      case Tunnel::Protocol::socks5:
        return error("auth_mode", "must be none or password with protocol socks5");
      case Tunnel::Protocol::http_proxy:
        return error("auth_mode", "must be none or basic with protocol http-proxy");
      default:
        return error("auth_mode", "must be none with this protocol");
    }
  }

  void remote() {
    if (!is_given("listen") || tunnel_.is_local()) return;
    if (!tunnel_.allow_remote) {
      error("listen", "is reachable from other machines; that needs allow_remote: true");
    }
    if (!is_proxy(tunnel_.protocol)) {
      warn("listen", "is reachable from other machines without any authentication");
    } else if (tunnel_.auth == Tunnel::Auth::none && !is_refused("auth_mode")) {
      error("listen", tunnel_.protocol == Tunnel::Protocol::socks5
                          ? "is reachable from other machines; that needs auth_mode: password"
                          : "is reachable from other machines; that needs auth_mode: basic");
    }
  }

  // What the local user shows goes to the service. A warning and no error: whoever runs a
  // client with such a file today shall still have one after an upgrade.
  void auth_url() {
    if (!is_given("auth_url") || tunnel_.auth == Tunnel::Auth::none) return;
    const Result<Url> url = parse_http_url(tunnel_.auth_url);
    if (url && !url->is_tls && !is_loopback_host(url->host)) {
      warn("auth_url", "sends the password over the network in clear; use https://");
    }
  }

  Build& build_;
  const Element& element_;
  Tunnel tunnel_;
};

// One spelling of what net::Listener takes for the same address.
std::string listen_host(const Tunnel& tunnel) {
  const std::string host = ascii_lower(tunnel.listen.host);
  if (host == "localhost") return "127.0.0.1";
  return host.empty() || host == "*" ? "::" : host;
}

bool is_same_listener(const Tunnel& a, const Tunnel& b) {
  if (!a.socket_path.empty() || !b.socket_path.empty()) {
    return std::filesystem::path(a.socket_path).lexically_normal() ==
           std::filesystem::path(b.socket_path).lexically_normal();
  }
  const bool is_udp = a.protocol == Tunnel::Protocol::udp;
  return a.listen.port != 0 && a.listen.port == b.listen.port && listen_host(a) == listen_host(b) &&
         is_udp == (b.protocol == Tunnel::Protocol::udp);
}

}  // namespace

std::string_view protocol_name(Tunnel::Protocol protocol) {
  return kProtocolNames[static_cast<std::size_t>(protocol)];
}

std::vector<Tunnel> build_tunnels(Build& build) {
  std::vector<Tunnel> tunnels;
  const std::vector<Element>& elements = build.settings.elements("client.tunnels");
  if (elements.size() > kTunnelsMax) build.error("client.tunnels", "must have at most 256 items");
  for (const Element& element : std::span(elements).first(std::min(elements.size(), kTunnelsMax))) {
    Tunnel tunnel = TunnelBuilder(build, element).run(tunnels.size());
    for (std::size_t i = 0; i < tunnels.size(); ++i) {
      if (tunnels[i].name == tunnel.name) {
        build.problems.error(element.where("name"), element.path + ".name",
                             "is the same as that of " + elements[i].path);
      }
      if (is_same_listener(tunnels[i], tunnel) && element.has("listen")) {
        build.problems.error(element.where("listen"), element.path + ".listen",
                             "is the same as that of " + elements[i].path);
      }
    }
    tunnels.push_back(std::move(tunnel));
  }
  if (elements.empty() && build.is_whole()) {
    if (build.purpose == Purpose::run) {
      build.error("client.tunnels", "has no entry, so there is nothing to do");
    } else {
      build.warn("client.tunnels", "has no entry; run needs at least one");
    }
  }
  return tunnels;
}

}  // namespace tmesh::config
