# The services and commands over the database (tmesh_cpp_server_admin).
tmesh_test(cpp_server_admin_test
  SOURCES
    admin_commands_test.cpp admin_quickstart_test.cpp credential_secret_test.cpp credential_service_test.cpp
  LIBS tmesh_cpp_server_admin GTest::gtest_main
  LABELS unit)
# Agents, policies and tokens: what may be written, and what is decided from it.
tmesh_test(cpp_server_access_test
  SOURCES
    policy_authorizer_test.cpp policy_batch_test.cpp policy_match_test.cpp policy_scope_test.cpp policy_target_test.cpp
    access_commands_test.cpp agent_service_test.cpp explain_test.cpp policy_service_test.cpp secret_box_test.cpp token_service_test.cpp
  LIBS tmesh_cpp_server_admin GTest::gtest_main
  LABELS unit)
# People: users, their sessions, what they did.
tmesh_test(cpp_server_people_test
  SOURCES housekeeping_test.cpp people_commands_test.cpp session_service_test.cpp user_service_test.cpp
  LIBS tmesh_cpp_server_admin GTest::gtest_main
  LABELS unit)
# The schema of the database.
tmesh_test(cpp_server_schema_test
  SOURCES schema_commands_test.cpp
  LIBS tmesh_cpp_server_admin GTest::gtest_main
  LABELS unit)
target_compile_definitions(cpp_server_schema_test PRIVATE TMESH_STORAGE_FIXTURES="${CMAKE_SOURCE_DIR}/tests/cpp/storage/fixtures")
