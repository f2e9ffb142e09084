// Whether agents are there, as lists show it: apart from whether they are enabled.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cpp/base/result.hpp"
#include "cpp/storage/db.hpp"
#include "cpp/storage/records.hpp"

namespace tmesh::server {

// Per agent "online" (some server holds a link of it whose lease has not expired) or
// "offline"; one query per 500 agents. Errors as db.hpp.
Result<std::vector<const char*>> agent_statuses(storage::Db& db, std::span<const storage::AgentRecord> agents,
                                                int64_t now_us);

}  // namespace tmesh::server
