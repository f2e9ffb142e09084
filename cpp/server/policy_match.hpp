// Whether one row of `agent_policies` allows one target.
//
//   protocol       equal after normalisation
//   target_host    "*" any; "*.example.com" its sub-domains; a CIDR (addresses only);
//                  an address; a host name (case and trailing dot do not matter)
//   target_port    equal; 0 = any
//   allowed_cidrs  empty = any; else the target is an address inside one of them
//   allowed_ports  empty = any; else contains the port
// The two lists are JSON arrays or comma text (ports there may be ranges "a-b").
// IPv4-mapped IPv6 compares as IPv4. A row that cannot be read in full allows nothing
// and is reported, because it may be the restriction somebody relied on.
#pragma once

#include "cpp/base/result.hpp"
#include "cpp/server/target.hpp"
#include "cpp/storage/records.hpp"

namespace tmesh::server {

// True or false; TMESH_E_INVALID for a malformed row, whatever the target: an empty
// or over-long host, a misused wildcard, a bad CIDR, a port outside 0..65535, a list
// that is neither form or has over 1024 items.
Result<bool> policy_allows(const storage::PolicyRecord& policy, const Target& target);

}  // namespace tmesh::server
