// What every program of the family ends with (INTERFACE, "Command line").
#pragma once

namespace tmesh {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailure = 1,  // something failed at run time
  kExitUsage = 2,    // the command line is wrong
  kExitConfig = 3,   // the configuration is wrong
};

}  // namespace tmesh
