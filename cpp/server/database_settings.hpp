// What the configuration says about the database, as cpp/storage takes it.
#pragma once

#include "cpp/config/server.hpp"
#include "cpp/storage/open.hpp"

namespace tmesh::server {

storage::DatabaseSettings database_settings(const config::StorageSettings& settings);

}  // namespace tmesh::server
