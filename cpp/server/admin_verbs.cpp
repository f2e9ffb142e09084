#include "cpp/server/admin_commands.hpp"
#include "cpp/server/target_pattern.hpp"

namespace tmesh::server {
namespace {

constexpr AdminFlag user_create[] = {{"role", "ROLE", "admin or user (default user)", false, false}};
constexpr AdminFlag owner_filter[] = {
    {"owner", "USER", "only those of this user (id or name)", false, false}};
constexpr AdminFlag owner_choice[] = {
    {"owner", "USER", "id or name of the owner (default: the only administrator)", false, false}};
constexpr AdminFlag policy_filter[] = {
    {"agent", "AGENT", "only those of this agent (id or name)", false, false}};
constexpr AdminFlag policy_create[] = {
    {"agent", "AGENT", "id or name of the agent", true, false},
    {"allow", "PATTERN", target_pattern_help, true, true},
    {"protocol", "PROTOCOL", "tcp, udp, http or ws (default tcp); may be given several times", false, true}};
constexpr AdminFlag token_create[] = {
    {"type", "TYPE", "agent or client", true, false},
    {"agent", "AGENT", "agent tokens: id or name of the agent it is for", false, false},
    {"owner", "USER", "client tokens: id or name of the owner (default: the only administrator)", false,
     false},
    {"expires", "TIME", "a duration from now (720h) or a time (2027-01-31T00:00:00Z); default never", false,
     false},
    {"scope-agent", "AGENT", "client tokens: only this agent", false, true},
    {"scope-protocol", "PROTOCOL", "client tokens: only this protocol", false, true},
    {"scope-cidr", "CIDR", "client tokens: only addresses in this network", false, true},
    {"scope-port", "PORT", "client tokens: only this port", false, true}};

constexpr AdminVerb verbs[] = {
    {"user", "create", "NAME", "creates a user; prints the first password once", user_create},
    {"user", "list", nullptr, "lists all users", {}},
    {"user", "show", "USER", "shows one user", {}},
    {"user", "disable", "USER", "stops all tokens and agents of a user", {}},
    {"user", "enable", "USER", "undoes disable", {}},
    {"user", "delete", "USER", "marks a user as deleted; the name stays taken", {}},

    {"agent", "create", "NAME", "creates an agent; its id goes into the agent's configuration", owner_choice},
    {"agent", "list", nullptr, "lists agents", owner_filter},
    {"agent", "show", "AGENT", "shows one agent", {}},
    {"agent", "disable", "AGENT", "refuses the agent's links and all streams to it", {}},
    {"agent", "enable", "AGENT", "undoes disable", {}},
    {"agent", "delete", "AGENT", "removes an agent and its policies", {}},

    {"policy", "create", nullptr, "allows targets behind an agent; without a policy nothing is allowed",
     policy_create},
    {"policy", "list", nullptr, "lists policies", policy_filter},
    {"policy", "show", "ID", "shows one policy", {}},
    {"policy", "delete", "ID", "removes a policy", {}},

    {"token", "create", nullptr, "creates a token; prints its secret once", token_create},
    {"token", "list", nullptr, "lists tokens, without secrets", owner_filter},
    {"token", "show", "ID", "shows one token, without its secret", {}},
    {"token", "revoke", "ID", "ends a token for ever", {}},
    {"token", "rotate", "ID", "replaces a token: same rights, new id and secret, printed once", {}},
};

}  // namespace

std::span<const AdminVerb> admin_verbs() {
  return verbs;
}

}  // namespace tmesh::server
