#include "cpp/server/admin_commands.hpp"
#include "cpp/server/target_pattern.hpp"

namespace tmesh::server {
namespace {

constexpr AdminFlag user_create[] = {{"role", "ROLE", "admin or user (default user)", false, false}};
constexpr AdminFlag user_filter[] = {{"status", "STATUS", "active, deleted or all (default)", false, false}};
constexpr AdminFlag user_update[] = {{"username", "NAME", "the new name", false, false},
                                     {"role", "ROLE", "admin or user", false, false}};
constexpr AdminFlag admin_regenerate[] = {
    {"confirm", nullptr, "yes, end the old password and all logins", true, false},
    {"user", "USER", "which administrator (id or name; default: the only one)", false, false}};
constexpr AdminFlag audit_filter[] = {
    {"actor", "USER", "only what this user did (id or name)", false, false},
    {"action", "ACTION", "only this action, such as token.revoke", false, false},
    {"resource-type", "TYPE", "only this kind of thing, such as token", false, false},
    {"resource-id", "ID", "only this one thing", false, false},
    {"from", "TIME", "not before this time (2027-01-31T00:00:00Z)", false, false},
    {"to", "TIME", "not after this time", false, false},
    {"limit", "COUNT", "at most so many entries (default 50)", false, false}};
constexpr AdminFlag owner_filter[] = {
    {"owner", "USER", "only those of this user (id or name)", false, false}};
constexpr AdminFlag agent_create[] = {
    {"owner", "USER", "id or name of the owner (default: the only administrator)", false, false},
    {"capability", "TEXT", "a note of what it can do; decides nothing", false, true},
    {"disabled", nullptr, "refuse its links until it is enabled", false, false}};
constexpr AdminFlag agent_update[] = {
    {"name", "NAME", "the new name", false, false},
    {"capability", "TEXT", "instead of all present capabilities", false, true},
    {"clear-capabilities", nullptr, "removes all capabilities", false, false},
    {"owner", "USER", "the new owner (id or name); tokens of the old one end", false, false}};
constexpr AdminFlag policy_filter[] = {
    {"agent", "AGENT", "only those of this agent (id or name)", false, false}};
constexpr AdminFlag policy_create[] = {
    {"agent", "AGENT", "id or name of the agent", true, false},
    {"allow", "PATTERN", target_pattern_help, true, true},
    {"protocol", "PROTOCOL", "tcp, udp, http or ws (default tcp); may be given several times", false, true},
    {"cidr", "CIDR", "only addresses in this network, never names", false, true}};
constexpr AdminFlag policy_update[] = {
    {"allow", "PATTERN", target_pattern_help, false, false},
    {"protocol", "PROTOCOL", "tcp, udp, http or ws", false, false},
    {"cidr", "CIDR", "only addresses in these networks, instead of the present ones", false, true},
    {"any-cidr", nullptr, "removes the restriction to networks", false, false}};
constexpr AdminFlag token_create[] = {
    {"type", "TYPE", "agent, client or server_node", true, false},
    {"agent", "AGENT", "agent tokens: id or name of the agent it is for", false, false},
    {"owner", "USER", "client tokens: id or name of the owner (default: the only administrator)", false,
     false},
    {"expires", "TIME", "a duration from now (720h) or a time (2027-01-31T00:00:00Z); default never", false,
     false},
    {"scope-agent", "AGENT", "client tokens: only this agent", false, true},
    {"scope-node", "ID", "client and node tokens: only this server node", false, true},
    {"scope-protocol", "PROTOCOL", "client tokens: only this protocol", false, true},
    {"scope-cidr", "CIDR", "client tokens: only addresses in this network", false, true},
    {"scope-port", "PORT", "client tokens: only this port", false, true}};
constexpr AdminFlag token_update[] = {
    {"expires", "TIME", "a duration from now (720h), a time (2027-01-31T00:00:00Z) or never", false, false},
    {"scope-agent", "AGENT", "only these agents, instead of the present ones", false, true},
    {"any-agent", nullptr, "removes the restriction to agents", false, false},
    {"scope-node", "ID", "only these server nodes", false, true},
    {"any-node", nullptr, "removes the restriction to server nodes", false, false},
    {"scope-protocol", "PROTOCOL", "only these protocols", false, true},
    {"any-protocol", nullptr, "removes the restriction to protocols", false, false},
    {"scope-cidr", "CIDR", "only addresses in these networks", false, true},
    {"any-cidr", nullptr, "removes the restriction to networks", false, false},
    {"scope-port", "PORT", "only these ports", false, true},
    {"any-port", nullptr, "removes the restriction to ports", false, false}};
constexpr AdminFlag token_reveal[] = {
    {"confirm", nullptr, "yes, show the secret; the audit log will say so", true, false}};

constexpr AdminFlag node_update[] = {{"name", "NAME", "what people call it", true, false}};

constexpr AdminVerb verbs[] = {
    {"user", "create", "NAME", "creates a user; prints the first password once", user_create},
    {"user", "list", nullptr, "lists users", user_filter},
    {"user", "show", "USER", "shows one user", {}},
    {"user", "update", "USER", "changes name or role of a user", user_update},
    {"user", "disable", "USER", "stops all tokens, agents and logins of a user", {}},
    {"user", "enable", "USER", "undoes disable", {}},
    {"user", "delete", "USER", "marks a user as deleted; the name stays taken", {}},
    {"user", "restore", "USER", "undoes delete", {}},
    {"user", "reset-password", "USER", "makes a new password, printed once; ends the user's logins", {}},

    {"admin", "bootstrap", nullptr, "creates the first administrator; prints name and password once", {}},
    {"admin", "regenerate-credentials", nullptr, "makes a new password for an administrator, printed once",
     admin_regenerate},

    {"audit", "list", nullptr, "lists what was changed, newest first", audit_filter},

    {"agent", "create", "NAME", "creates an agent; its id goes into the agent's configuration", agent_create},
    {"agent", "list", nullptr, "lists agents", owner_filter},
    {"agent", "show", "AGENT", "shows one agent", {}},
    {"agent", "update", "AGENT", "changes name, capabilities or owner", agent_update},
    {"agent", "disable", "AGENT", "refuses the agent's links and all streams to it", {}},
    {"agent", "enable", "AGENT", "undoes disable", {}},
    {"agent", "delete", "AGENT", "removes an agent and its policies", {}},

    {"policy", "create", nullptr, "allows targets behind an agent; without a policy nothing is allowed",
     policy_create},
    {"policy", "list", nullptr, "lists policies", policy_filter},
    {"policy", "show", "ID", "shows one policy", {}},
    {"policy", "update", "ID", "changes what a policy allows", policy_update},
    {"policy", "delete", "ID", "removes a policy", {}},

    {"token", "create", nullptr, "creates a token; prints its secret once", token_create},
    {"token", "list", nullptr, "lists tokens, without secrets", owner_filter},
    {"token", "show", "ID", "shows one token, without its secret", {}},
    {"token", "update", "ID", "changes expiry and scope", token_update},
    {"token", "revoke", "ID", "ends a token for ever", {}},
    {"token", "rotate", "ID", "replaces a token: same rights, new id and secret, printed once", {}},
    {"token", "reveal", "ID", "prints the secret of a token again, if it was kept", token_reveal},

    {"node", "list", nullptr, "lists the servers of this installation", {}},
    {"node", "show", "ID", "shows one server", {}},
    {"node", "update", "ID", "gives a server another name", node_update},
    {"node", "disable", "ID", "makes a server take no links and refuse to start", {}},
    {"node", "enable", "ID", "undoes disable", {}},
    {"node", "delete", "ID", "marks a server as deleted; it refuses to start", {}},
    {"node", "restore", "ID", "undoes delete", {}},
};

}  // namespace

std::span<const AdminVerb> admin_verbs() {
  return verbs;
}

}  // namespace tmesh::server
