// What an agent's hello or metadata update says, as the database keeps it.
//
//   {"items":[{"name","source","value"}],"errors":[{"name","code","message"}],"capabilities":[]}
//
// Lists are never null (LESSONS R17). A value that is or carries a secret is not kept: its
// item has "redacted":true instead. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "core/proto/metadata.h"
#include "cpp/base/json.hpp"
#include "cpp/storage/presence_records.hpp"

namespace tmesh::server {

struct AgentReport {
  storage::MetadataRecord row;  // without the times of this server
  bool is_unreported = false;   // no item and no error: a link without a report
};

AgentReport make_agent_report(const tmesh_agent_metadata& metadata);

// By its name, or a value that looks like credentials: a URL with a password, an
// Authorization header, a private key, a JSON web token.
bool is_secret_item(std::string_view name, std::string_view value);

// Writes the three lists of a stored document as the API shows them, whoever wrote it:
// `"items":[…],"errors":[…],"capabilities":[…]` into the open object. What cannot be read
// gives empty lists.
void append_report_lists(std::string_view document, json::Writer& out);

}  // namespace tmesh::server
