#include "cpp/server/quickstart.hpp"

#include <memory>
#include <optional>

#include "cpp/base/address.hpp"
#include "cpp/base/exit_code.hpp"
#include "cpp/base/parse.hpp"
#include "cpp/base/random.hpp"
#include "cpp/base/url.hpp"
#include "cpp/server/agent_service.hpp"
#include "cpp/server/password.hpp"
#include "cpp/server/policy_service.hpp"
#include "cpp/server/quickstart_files.hpp"
#include "cpp/server/target_pattern.hpp"
#include "cpp/server/token_service.hpp"
#include "cpp/server/user_service.hpp"
#include "cpp/storage/change.hpp"
#include "cpp/storage/migrator.hpp"
#include "cpp/storage/sqlite_db.hpp"

namespace tmesh::server {
namespace {

constexpr size_t patterns_max = 64;  // a first set-up; more belong into `policy create`
constexpr const char* database_name = "tunnelmesh.db";
constexpr const char* yaml_names[] = {"server.yaml", "agent.yaml", "client.yaml"};
// http tunnels of the same targets, and what a browser does, work without more set-up.
constexpr const char* allowed_protocols[] = {"tcp", "udp", "http"};

struct Failed {
  std::string text;
};
template <class T>
using Step = std::expected<T, Failed>;

std::unexpected<Failed> failed(std::string text) {
  return std::unexpected(Failed{std::move(text)});
}

struct Plan {
  QuickstartSetup setup;
  std::vector<TargetPattern> patterns;
};

struct Created {
  std::string admin_name;
  Secret admin_password;
};

class Checker {
 public:
  explicit Checker(std::FILE* err) : err_(err) {}
  void problem(const std::string& text) {
    (void)std::fprintf(err_, "quickstart: %s\n", text.c_str());
    has_problem_ = true;
  }
  HostPort address(const char* flag, const std::string& text) {
    Result<HostPort> where = parse_host_port(text);
    if (where && where->port != 0) return std::move(*where);
    problem(std::string(flag) + ' ' + text + ": not HOST:PORT with a port from 1 to 65535");
    return {};
  }
  bool has_problem() const { return has_problem_; }

 private:
  std::FILE* err_;
  bool has_problem_ = false;
};

// Where agent and client on this machine reach the listener.
std::string local_url(const HostPort& listen) {
  std::string host = listen.host;
  if (host.empty() || host == "0.0.0.0") host = "127.0.0.1";
  if (host == "::") host = "::1";
  return "ws://" + format_host_port(host, listen.port);
}

void check_patterns(const QuickstartRequest& request, Checker& checker, Plan& plan) {
  if (request.allow.empty()) {
    checker.problem(std::string("--allow is missing: nothing is reachable without it. It takes ") +
                    target_pattern_help + "; '*:*' allows everything the agent can reach");
  }
  if (request.allow.size() > patterns_max) checker.problem("--allow is given more than 64 times");
  for (const std::string& text : request.allow) {
    Result<TargetPattern> pattern = parse_target_pattern(text);
    if (pattern) {
      plan.patterns.push_back(std::move(*pattern));
    } else {
      checker.problem("--allow " + text + ": " + pattern.error().text + " (it takes " + target_pattern_help +
                      ')');
    }
  }
}

void check_url(const QuickstartRequest& request, Checker& checker, Plan& plan) {
  if (request.public_url.empty()) {
    plan.setup.server_url = local_url(plan.setup.listen);
    return;
  }
  const Result<Url> url = parse_ws_url(request.public_url);
  if (!url || (url->path != "/" && !url->path.empty())) {
    checker.problem("--public-url " + request.public_url + ": not ws://HOST[:PORT] or wss://HOST[:PORT]");
    return;
  }
  plan.setup.server_url = (url->is_tls ? "wss://" : "ws://") + format_host_port(url->host, url->port);
}

std::optional<Plan> check(const QuickstartRequest& request) {
  Checker checker(request.err);
  Plan plan;
  if (request.directory.empty()) checker.problem("--dir is empty");
  if (const Result<void> good = check_agent_name(request.agent_name); !good) {
    checker.problem(std::string("--agent: ") + good.error().text);
  }
  plan.setup.agent_name = request.agent_name;
  plan.setup.listen = checker.address("--listen", request.listen);
  plan.setup.socks5 = checker.address("--socks5", request.socks5);
  if (plan.setup.socks5.port != 0 && !is_loopback_host(plan.setup.socks5.host)) {
    checker.problem("--socks5 " + request.socks5 +
                    ": an entry that others can reach needs a password: set it up in client.yaml later");
  }
  check_patterns(request, checker, plan);
  check_url(request, checker, plan);
  if (checker.has_problem()) return std::nullopt;
  return plan;
}

Result<void> add_rows(const ChangeScope& scope, const QuickstartRequest& request,
                      const std::string& password_hash, Plan& plan, Created& created) {
  Result<storage::UserRecord> admin = UserService(scope).create(created.admin_name, "admin", password_hash);
  if (!admin) return std::unexpected(admin.error());
  Result<storage::AgentRecord> agent = AgentService(scope).create(request.agent_name, *admin);
  if (!agent) return std::unexpected(agent.error());
  for (const TargetPattern& pattern : plan.patterns) {
    for (const char* protocol : allowed_protocols) {
      Result<storage::PolicyRecord> policy = PolicyService(scope).create(agent->id, pattern, protocol);
      if (!policy) return std::unexpected(policy.error());
    }
  }
  Result<CreatedToken> agent_token =
      TokenService(scope).create({TokenType::agent, admin->id, agent->id, {}, {}});
  if (!agent_token) return std::unexpected(agent_token.error());
  Result<CreatedToken> client_token = TokenService(scope).create({TokenType::client, admin->id, {}, {}, {}});
  if (!client_token) return std::unexpected(client_token.error());
  plan.setup.agent_id = agent->id;
  plan.setup.agent_token = std::move(agent_token->secret);
  plan.setup.client_token = std::move(client_token->secret);
  return {};
}

Step<Created> fill_database(const QuickstartRequest& request, Plan& plan) {
  Created created{"admin-" + random_hex(4), new_password()};
  const Result<std::string> hash = hash_password(created.admin_password.reveal());
  if (!hash) return failed(hash.error().text);
  storage::Opened<std::unique_ptr<storage::Db>> db = storage::open_sqlite({.path = plan.setup.database_path});
  if (!db) return failed(db.error().text);
  const auto in_database = [&plan](std::string_view text) {
    return failed(plan.setup.database_path + ": " + std::string(text));
  };
  if (storage::Opened<storage::SchemaReport> schema = storage::migrate(**db, true); !schema) {
    return in_database(schema.error().text);
  }
  const auto add = [&](storage::Transaction& tx) {
    return add_rows(ChangeScope(tx, request.clock(), ""), request, *hash, plan, created);
  };
  if (Result<void> done = storage::change(**db, add); !done) return in_database(done.error().text);
  return created;
}

Step<Created> create_all(const QuickstartRequest& request, Plan& plan, QuickstartFiles& files) {
  if (Result<void> done = files.enter(request.directory); !done)
    return failed(request.directory + ": " + done.error().text);
  const auto in_the_way = [&files](const char* name, const Error& error) {
    const bool exists = error.code == TMESH_E_STATE;
    return failed(files.path(name) + ": " + error.text + (exists ? ": choose another --dir" : ""));
  };
  if (Result<void> made = files.create(database_name, {"-wal", "-shm", "-journal"}); !made) {
    return in_the_way(database_name, made.error());
  }
  // Before the slow part: a file in the way is said at once.
  for (const char* name : yaml_names) {
    if (Result<void> made = files.create(name); !made) return in_the_way(name, made.error());
  }
  plan.setup.database_path = files.path(database_name);
  Step<Created> created = fill_database(request, plan);
  if (!created) return created;
  const std::string contents[] = {server_yaml(plan.setup), agent_yaml(plan.setup), client_yaml(plan.setup)};
  for (size_t i = 0; i < std::size(yaml_names); ++i) {
    if (Result<void> done = files.fill(yaml_names[i], contents[i]); !done) {
      return failed(files.path(yaml_names[i]) + ": " + done.error().text);
    }
  }
  return created;
}

// As one word of a shell command.
std::string shell_word(const std::string& text) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:,@%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + '\'';
}

std::string report(const QuickstartRequest& request, const Plan& plan, const Created& created,
                   const QuickstartFiles& files) {
  std::string text =
      "Created in " + files.directory() + ": server.yaml, agent.yaml, client.yaml, " + database_name + "\n\n";
  text += "  administrator  " + created.admin_name + "\n";
  text += "  password       " + std::string(created.admin_password.reveal()) + "  (shown only this once)\n";
  text += "  agent          " + plan.setup.agent_name + " (" + plan.setup.agent_id + ")\n";
  text += "  may reach     ";
  for (const std::string& pattern : request.allow) text += ' ' + pattern;
  text += "\n\nStart the three programs, each in its own terminal:\n\n";
  text += "  tunnelmesh-server run --config " + shell_word(files.path("server.yaml")) + "\n";
  text += "  tunnelmesh-agent run --config " + shell_word(files.path("agent.yaml")) + "\n";
  text += "  tunnelmesh-client run --config " + shell_word(files.path("client.yaml")) + "\n\n";
  text += "Then point a browser at the SOCKS5 proxy " +
          format_host_port(plan.setup.socks5.host, plan.setup.socks5.port) + ", or: curl --proxy socks5h://" +
          format_host_port(plan.setup.socks5.host, plan.setup.socks5.port) + " URL\n";
  return text;
}

}  // namespace

int run_quickstart(const QuickstartRequest& request) {
  std::optional<Plan> plan = check(request);
  if (!plan) return kExitUsage;
  QuickstartFiles files;
  const Step<Created> created = create_all(request, *plan, files);
  if (!created) {
    (void)std::fprintf(request.err, "quickstart: %s\n", created.error().text.c_str());
    return kExitFailure;
  }
  const std::string text = report(request, *plan, *created, files);
  const bool is_printed =
      std::fwrite(text.data(), 1, text.size(), request.out) == text.size() && std::fflush(request.out) == 0;
  if (!is_printed) {  // the password would be lost
    (void)std::fprintf(request.err, "quickstart: the output could not be written\n");
    return kExitFailure;
  }
  files.keep();
  if (!is_loopback_host(plan->setup.listen.host)) {
    (void)std::fprintf(
        request.err,
        "warning: others can reach %s and read what passes: set tls.enabled, tls.cert_file and tls.key_file "
        "in "
        "server.yaml and use wss:// in agent.yaml and client.yaml, or put an HTTPS proxy in front\n",
        request.listen.c_str());
  }
  return kExitOk;
}

}  // namespace tmesh::server
