// What a failing operator new does: it ends the program. The language this code is written
// in has no exceptions, and no object of a program can do without the memory it asked for
// (allocations that a peer decides about are bounded, and refused by status in core).
#pragma once

namespace tmesh {

// From here on a failing operator new, of whatever thread, writes the one line "out of
// memory" to standard error and ends the process with status 1. It allocates nothing and runs no
// destructor: what is on disk is as after a crash, which the database is made for.
void exit_when_out_of_memory();

}  // namespace tmesh
