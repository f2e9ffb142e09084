# The services and commands over the database (tmesh_cpp_server_admin).
tmesh_test(cpp_server_admin_test
  SOURCES
    admin_commands_test.cpp admin_quickstart_test.cpp credential_secret_test.cpp credential_service_test.cpp
    policy_authorizer_test.cpp policy_batch_test.cpp policy_match_test.cpp policy_scope_test.cpp policy_target_test.cpp
  LIBS tmesh_cpp_server_admin GTest::gtest_main
  LABELS unit)
