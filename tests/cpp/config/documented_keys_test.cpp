// Every key and flag that files and scripts of deployed programs may hold is known here
// (requirements F1, F2): accepted and effective, or accepted with one warning.
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>
#include <string_view>

#include "tests/cpp/config/fixture.hpp"

namespace tmesh::config {
namespace {

// Sections whose keys are not looked at one by one.
constexpr std::array<std::string_view, 2> kTrees = {"security.auth", "server.vpn"};

// "server.http.{a,b}" stands for two keys.
constexpr const char* kDocumented[] = {
    "mode",
    "storage.{driver,sqlite.path,auto_init}",
    "storage.mysql.{dsn,tls,ca,cert,key}",
    "registry.{type,endpoints}",
    "node.id",
    "server.{http_addr,https_addr,agent_ws_addr,client_ws_addr,dynamic_suffix}",
    "server.tcp_bridge.{enabled,path,max_bytes}",
    "server.relay.{enabled,listen,endpoint,ca,cert,key,server_name,node_token}",
    "server.stream.{max_concurrent_opens,max_pending_opens,initial_window,window_update_threshold}",
    "server.stream.{max_frame_payload,max_active_per_agent}",
    "server.authorization_cache.{enabled,local_positive_ttl,cluster_positive_ttl,negative_ttl}",
    "server.authorization_cache.{revision_poll_interval,max_stale_on_poll_error,max_entries}",
    "server.http.{read_header_timeout,idle_timeout,max_header_bytes,body_timeout,max_connections}",
    "server.agents.max_connections_per_agent",
    "server.metrics.token",
    "server.audit.retention_days",
    "server.trusted_proxies",
    "server.webssh.{enabled,ticket_ttl,session_ttl,max_active_sessions_per_user,open_timeout}",
    "server.webssh.{idle_timeout,max_message_bytes}",
    "server.proxy_entry.{enabled,listen,trusted_proxies,domain_suffix,route_header,client_ip_header}",
    "server.proxy_entry.{client_port_header,connect_timeout,idle_timeout,shutdown_timeout}",
    "server.proxy_entry.{max_concurrent_tunnels,max_header_bytes,auth_backoff_threshold}",
    "server.vpn.enabled",
    "security.{allowed_hosts,allowed_origins,allow_legacy_connection_tokens}",
    "security.auth.session_token_ttl",
    "security.auth.login_throttle.{max_attempts,window,block}",
    "security.auth.mfa.{issuer,digits,period,skew,challenge_ttl,max_attempts,recovery_codes}",
    "security.auth.device_trust.{enabled,cookie}",
    "tls.{enabled,cert_file,key_file,min_version}",
    "downloads.github_repository",
    "agent.{server_url,id,instance_id,token}",
    "agent.connections.{min,max,high_watermark,low_watermark,evaluation_interval,cooldown}",
    "agent.streams.{max_concurrent_dials,max_pending_dials,connect_timeout,open_timeout}",
    "agent.streams.{inbound_buffer_bytes,max_active}",
    "agent.streams.{icmp_enabled,icmp_bind_address,icmp_timeout,icmp_max_concurrent}",
    "agent.metadata[].{name,source,path,key}",
    "client.{server_url,token,instance_id,instance_id_path}",
    "client.metadata[].{name,source,path,key}",
    "client.connections.{min,max,high_watermark,low_watermark,evaluation_interval,cooldown}",
    "client.stream.{open_timeout,inbound_buffer_bytes}",
    "client.remote_validation.{positive_ttl,negative_ttl,timeout,max_entries}",
    "client.tunnels[].{name,protocol,listen,agent_id,target_host,target_port}",
    "client.tunnels[].{auth_mode,auth_url,allow_remote}",
};

// Keys of this project beside them.
constexpr const char* kAdded[] = {
    "server.capabilities.{open_result,flow_control,fair_writer}",
    "agent.capabilities.{open_result,flow_control,fair_writer}",
    "client.capabilities.{open_result,flow_control,fair_writer}",
    "server.limits.{max_window,memory_budget,window_violations}",
    "agent.limits.{max_window,memory_budget,window_violations}",
    "client.limits.{max_window,memory_budget,window_violations}",
    "server.stream.{max_opens_per_link,max_active_per_link,max_active_per_token}",
    "server.authorization_cache.revoke_open_streams",
    "agent.policy.{allow,deny}",
    "agent.streams.resolver",
    "server.{shutdown_timeout,log_level,log_format,status_socket,config_watch}",
    "agent.{shutdown_timeout,log_level,log_format,status_socket,config_watch}",
    "client.{shutdown_timeout,log_level,log_format,status_socket,config_watch}",
    "client.{handshake_timeout,udp_idle_timeout}",
    "client.tunnels[].{hosts,socket_mode,socket_owner}",
    "agent.token_file",
    "client.{token_file,socks5_credentials_file,http_proxy_credentials_file}",
    "storage.mysql.dsn_file",
    "server.token_encryption_key_file",
};

std::vector<std::string> expanded(std::string_view text) {
  const std::size_t open = text.find('{');
  if (open == std::string_view::npos) return {std::string(text)};
  std::vector<std::string> out;
  for (const std::string& name : split_list(text.substr(open + 1, text.size() - open - 2))) {
    out.push_back(std::string(text.substr(0, open)) + name);
  }
  return out;
}

bool is_in_tree(std::string_view path) {
  for (const std::string_view tree : kTrees) {
    if (path.starts_with(tree) && path[tree.size()] == '.') return true;
  }
  return false;
}

TEST(DocumentedKeys, EachHasARowOrATree) {
  for (const char* line : kDocumented) {
    for (const std::string& path : expanded(line)) {
      EXPECT_TRUE(find_key(path) != nullptr || is_in_tree(path)) << path;
    }
  }
  for (const char* line : kAdded) {
    for (const std::string& path : expanded(line)) EXPECT_NE(find_key(path), nullptr) << path;
  }
}

// A value that means something else than the default, where there is one.
std::string example(const Key& key) {
  switch (key.type) {
    case Type::boolean:
      return key.effect == Effect::unavailable ? "false" : key.default_text == "true" ? "false" : "true";
    case Type::count:
    case Type::bytes:
      return std::to_string(key.min);
    case Type::duration:
      return std::to_string(key.min) + "us";
    case Type::rate:
      return "3 in 5s";
    case Type::choice:
      return std::string(key.choices.substr(key.choices.rfind('|') + 1));
    default:
      break;
  }
  for (const char* text :
       {"10.0.0.0/8", "https://a.example", "wss://a.example", "http://a.example", "127.0.0.1:1", "127.0.0.9",
        "/a/path-of-some-length", "a.example", "0600", "a-word-of-some-length", "A_NAME"}) {
    if (check_value(key, text).empty()) return text;
  }
  ADD_FAILURE() << "no example for " << key.path;
  return "";
}

class EveryKey : public ConfigTest {
 protected:
  static Role role_of(const Key& key) {
    return (key.roles & kServer) != 0 ? kServer : (key.roles & kAgent) != 0 ? kAgent : kClient;
  }
  // What the key has after the sources were merged, and where it has it from.
  Setting setting_of(const Key& key) {
    Problems problems;
    Settings settings = gather(source(), role_of(key), problems);
    EXPECT_FALSE(problems.has_errors()) << problems.errors_text();
    return settings.at(key);
  }
};

// Requirement F1, for each row: file, environment, flag; each above the one before.
TEST_F(EveryKey, FileThenEnvironmentThenFlag) {
  for (const Key& key : keys()) {
    if (!key.is_settable()) continue;
    fresh();
    const std::string value = example(key);
    std::string yaml;
    std::string indent;
    std::string_view rest = key.path;
    for (std::size_t dot; (dot = rest.find('.')) != std::string_view::npos; rest.remove_prefix(dot + 1)) {
      yaml += indent + std::string(rest.substr(0, dot)) + ":\n";
      indent += "  ";
    }
    file(yaml + indent + std::string(rest) + ": '" + value + "'\n");
    EXPECT_EQ(setting_of(key).origin.kind, Origin::Kind::file) << key.path;
    EXPECT_EQ(setting_of(key).text(), value) << key.path;
    env(env_name(key.path) + "=" + value);
    EXPECT_EQ(setting_of(key).origin.kind, Origin::Kind::env) << key.path;
    flag(std::string(key.path), value);
    EXPECT_EQ(setting_of(key).origin.kind, Origin::Kind::flag) << key.path;
    EXPECT_EQ(setting_of(key).text(), value) << key.path;
  }
}

// A key that changes nothing says so, once for its feature.
TEST_F(EveryKey, WithoutEffectIsOneWarning) {
  std::set<std::string_view> features;
  for (const Key& key : keys()) {
    if (key.effect == Effect::full || !key.is_settable()) continue;
    fresh();
    flag(std::string(key.path), example(key));
    Problems problems;
    gather(source(), role_of(key), problems);
    EXPECT_EQ(problems.error_count(), 0u) << key.path << problems.errors_text();
    EXPECT_NE(problems.warnings_text().find(std::string(key.feature) + ": is accepted but has no effect"),
              std::string::npos)
        << key.path;
  }
}

// Deployed programs share their flags: what a script gives to one is no error for another.
TEST(DocumentedFlags, AreTakenByAllThreePrograms) {
  for (const Role role : {kServer, kAgent, kClient}) {
    for (const char* name : {"mode",
                             "storage.driver",
                             "storage-driver",
                             "storage.auto_init",
                             "storage-auto-init",
                             "registry.type",
                             "registry",
                             "node.id",
                             "node-id",
                             "node-id-path",
                             "server.tcp_bridge.enabled",
                             "tcp-bridge",
                             "server.tcp_bridge_enabled",
                             "server.dynamic_suffix",
                             "security.allowed_hosts",
                             "security.allowed_origins",
                             "security.allow_legacy_connection_tokens",
                             "tls.enabled",
                             "tls.cert_file",
                             "tls.key_file",
                             "tls.min_version",
                             "server.relay.enabled",
                             "server.relay.listen",
                             "server.relay.endpoint",
                             "server.relay.ca",
                             "server.relay.cert",
                             "server.relay.key",
                             "server.relay.server_name",
                             "server.relay.node_token",
                             "client.server_url",
                             "client.token",
                             "server.http.idle_timeout",
                             "server.webssh.enabled",
                             "server.webssh.idle_timeout",
                             "server.proxy_entry.listen"}) {
      EXPECT_NE(find_flag(name, role), nullptr) << name << " for " << int{role};
    }
  }
  EXPECT_EQ(find_flag("log-level", kAgent)->path, "agent.log_level") << "the own row first";
}

TEST(DocumentedFlags, TokenFileIsShort) {
  EXPECT_EQ(find_flag("token-file", kAgent)->path, "agent.token_file");
  EXPECT_EQ(find_flag("token-file", kClient)->path, "client.token_file");
}

}  // namespace
}  // namespace tmesh::config
