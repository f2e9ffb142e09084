#include "cpp/config/load.hpp"

#include <utility>

#include "cpp/config/build.hpp"

namespace tmesh::config {
namespace {

template <class Config>
Loaded<Config> load(const Source& source, Purpose purpose, Role role, Config (*build)(Build&)) {
  Problems problems;
  FilePrints files;
  Settings settings = gather(source, role, problems, &files);
  Build context{source, purpose, settings, problems, std::move(files)};
  Config config = build(context);
  return {std::move(config), std::move(settings), std::move(problems), std::move(context.files)};
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
