#include "cpp/config/load.hpp"

#include <utility>

#include "cpp/config/build.hpp"

namespace tmesh::config {
namespace {

template <class Config>
Loaded<Config> load(const Source& source, Purpose purpose, Role role, Config (*build)(Build&)) {
  Problems problems;
  Settings settings = gather(source, role, problems);
  Build context{source, purpose, settings, problems};
  Config config = build(context);
  return {std::move(config), std::move(settings), std::move(problems)};
}

}  // namespace

Loaded<ServerConfig> load_server(const Source& source, Purpose purpose) {
  return load<ServerConfig>(source, purpose, kServer, &build_server);
}

Loaded<AgentConfig> load_agent(const Source& source, Purpose purpose) {
  return load<AgentConfig>(source, purpose, kAgent, &build_agent);
}

Loaded<ClientConfig> load_client(const Source& source, Purpose purpose) {
  return load<ClientConfig>(source, purpose, kClient, &build_client);
}

}  // namespace tmesh::config
