// The SQL scripts of migrations/, as text in the program (migrations/embed.cmake).
#pragma once

namespace tmesh::storage {

extern const char* const ddl_sql;
extern const char* const v0008_to_v0009_sqlite_sql;
extern const char* const v0008_to_v0009_mysql_sql;

}  // namespace tmesh::storage
