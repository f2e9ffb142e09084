// The identity of one installation of a client or agent: "agent-" or "client-" and
// 32 hex digits, made once and kept in a file (INTERFACE 5.2).
#pragma once

#include <string>
#include <string_view>

namespace tmesh {

struct InstanceId {
  std::string value;
  bool is_kept = false;  // false: the file could not be written, the next start has another one
};

// Reads the file; if there is none or it holds no usable id, makes one and writes
// it behind `prefix` ("agent-"; 0600; the folder is created if its parent exists). Never fails: without a
// writable place the id lives as long as the process. Blocking; for start-up.
InstanceId load_or_create_instance_id(const std::string& path, std::string_view prefix);

}  // namespace tmesh
