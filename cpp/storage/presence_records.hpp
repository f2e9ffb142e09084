// Rows of the tables about who is connected where. Plain structs, as in records.hpp.
#pragma once

#include <cstdint>
#include <string>

namespace tmesh::storage {

// One link of an agent, held by one server until `expires_at`.
struct LeaseRecord {
  std::string agent_id;
  std::string connection_id;
  std::string node_id;         // what the agent calls its machine
  std::string instance_id;     // the agent's process
  std::string server_node_id;  // who holds the link
  int64_t epoch = 0;           // of that server's row in server_nodes when it took the link
  int64_t connection_epoch = 0;
  int64_t active_streams = 0;
  int64_t health_score = 100;  // 0 to 100
  std::string acquired_at;
  std::string expires_at;
  std::string updated_at;
};

// Which lease, and which life of it.
struct LeaseKey {
  std::string agent_id;
  std::string connection_id;
  int64_t connection_epoch = 0;
};

// What one process of an agent said about itself last.
struct MetadataRecord {
  std::string agent_id;
  std::string instance_id;
  std::string node_id;
  int64_t epoch = 0;     // of the link that carried the report
  int64_t revision = 0;  // of the report
  std::string metadata = "{}";
  std::string reported_at;   // by the agent's clock
  std::string last_seen_at;  // by the server's
  std::string expires_at;
  bool is_stale = false;
  std::string updated_at;
};

struct MetadataKey {
  std::string agent_id;
  std::string instance_id;
  int64_t epoch = 0;
  int64_t revision = 0;
};

struct NodeRecord {
  std::string id;
  std::string name;
  std::string address;
  int64_t epoch = 0;  // grows with every start of that server
  std::string metadata = "{}";
  bool is_enabled = true;
  std::string deleted_at;
  std::string last_seen_at;
  std::string expires_at;
  std::string created_at;
  std::string updated_at;
};

}  // namespace tmesh::storage
