# Makes the SQL scripts string constants, so that a server needs no files beside it.
#   tmesh_embed_migrations(<out.cpp>)  writes definitions of the constants that
#   cpp/storage/scripts.hpp declares. Configuring again follows a changed script.
function(tmesh_embed_migrations out)
  set(here ${CMAKE_SOURCE_DIR}/migrations)
  set(text "// Made by migrations/embed.cmake.\n#include \"cpp/storage/scripts.hpp\"\n\nnamespace tmesh::storage {\n")
  foreach(pair
      "ddl_sql=ddl.sql"
      "v0008_to_v0009_sqlite_sql=incremental/v0008_to_v0009/sqlite.sql"
      "v0008_to_v0009_mysql_sql=incremental/v0008_to_v0009/mysql.sql")
    string(REPLACE "=" ";" pair "${pair}")
    list(GET pair 0 name)
    list(GET pair 1 path)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${here}/${path})
    file(READ ${here}/${path} script)
    string(APPEND text "const char* const ${name} = R\"tmesh_sql(${script})tmesh_sql\";\n")
  endforeach()
  string(APPEND text "}  // namespace tmesh::storage\n")
  file(WRITE ${out}.new "${text}")
  file(COPY_FILE ${out}.new ${out} ONLY_IF_DIFFERENT)
endfunction()
