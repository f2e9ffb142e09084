// Where the status socket of a client or an agent is when the configuration names no place.
//
// The first of these that can be used: the folder the service manager made
// (RUNTIME_DIRECTORY), $XDG_RUNTIME_DIR/tunnelmesh/<role>, /run/tunnelmesh/<role> (root),
// /tmp/tunnelmesh-<uid>/<role>. In it the first free one of status.sock, status-2.sock ...
// status-8.sock, since several may run. Folders that are made here belong to this user and
// nobody else writes to them; one of which that is not true is not used (anybody can make a
// folder in /tmp).
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace tmesh::session {

// What decides; a test has its own.
struct StatusSurroundings {
  std::string runtime_directory;  // RUNTIME_DIRECTORY; of several the first counts
  std::string xdg_runtime_dir;
  std::string run = "/run";
  std::string tmp = "/tmp";
  uid_t user = 0;
};

// Of this process.
StatusSurroundings status_surroundings();

// Socket files per folder: more programs of one role and user than anybody runs.
inline constexpr unsigned kStatusSocketsMax = 8;

// status.sock, status-2.sock ...; number from 1.
std::string status_socket_name(unsigned number);

// The folders in which `role` ("client", "agent") may listen, best first; none is made yet.
std::vector<std::string> status_folders(const StatusSurroundings& around, std::string_view role);
// Makes the folder, and the one above it, if they are missing. False unless it is a folder of
// this user (or of root) that others cannot write to.
bool prepare_status_folder(const std::string& folder, uid_t user);
// Where `status` looks: all sockets, of the user's own programs first, then the system's.
std::vector<std::string> status_sockets_to_ask(const StatusSurroundings& around, std::string_view role);

}  // namespace tmesh::session
