// Loading: sources in, a typed configuration and every problem out.
#pragma once

#include "cpp/base/file_print.hpp"
#include "cpp/config/agent.hpp"
#include "cpp/config/client.hpp"
#include "cpp/config/problems.hpp"
#include "cpp/config/server.hpp"
#include "cpp/config/settings.hpp"
#include "cpp/config/sources.hpp"

namespace tmesh::config {

// How complete the configuration has to be.
enum class Purpose : uint8_t {
  run,    // everything there, every file readable, nothing this version does not have
  check,  // as run, but what only this version lacks, and credentials that the service
          // manager may supply later, are warnings
  print,  // only what is there has to be valid; no file but the configuration is opened
  use,    // as print, but secrets are read: for commands that need only a part of it
};

template <class Config>
struct Loaded {
  Config config;      // usable only when there are no errors
  Settings settings;  // effective values with their origins, for print-config
  Problems problems;
  // What it was made from besides environment and flags: configuration, secrets, certificates.
  FilePrints files;

  bool ok() const { return !problems.has_errors(); }
};

// Blocking (reads files). May be called again for a reload; keeps nothing.
Loaded<ServerConfig> load_server(const Source& source, Purpose purpose);
Loaded<AgentConfig> load_agent(const Source& source, Purpose purpose);
Loaded<ClientConfig> load_client(const Source& source, Purpose purpose);

}  // namespace tmesh::config
