/* A socket of the simulation: produces patterned bytes, checks the ones it gets.
 *
 * It behaves as a socket does: reading stops when its queue is full and goes on only
 * when the splice says that bytes were consumed; writing takes as long as it takes.
 */
#ifndef TMESH_TESTS_SIM_END_H
#define TMESH_TESTS_SIM_END_H

#include "core/mux/splice.h"
#include "sim_util.h"

struct sim_end {
  unsigned stream, direction; /* of what it produces; the other direction is what it gets */
  struct tmesh_chunkq in, out;
  struct tmesh_splice* splice; /* NULL until one exists */
  int index;                   /* which end of it */

  /* producing */
  uint64_t total_bytes, produced_bytes;
  size_t in_max_bytes;
  size_t read_max_bytes; /* per service */
  uint64_t read_gap_us, next_read_us;
  bool sends_eof; /* after total_bytes; otherwise it stays open */
  bool is_eof_sent, is_paused, is_started;

  /* consuming */
  uint64_t received_bytes;
  size_t out_max_bytes;
  size_t write_max_bytes; /* per service */
  uint64_t write_gap_us, next_write_us;
  bool is_stalled; /* takes nothing for now */
  bool is_finish_asked, is_finish_done;

  bool is_aborted;
  uint64_t consumed_bytes;
};

void sim_end_init(struct sim_end* e, struct tmesh_pool* pool, unsigned stream, unsigned direction);
struct tmesh_end sim_end_of(struct sim_end* e);
bool sim_end_wants_read(const struct sim_end* e);
bool sim_end_wants_write(const struct sim_end* e);
void sim_end_read(struct sim_end* e, struct sim_rng* rng, uint64_t now_us);
void sim_end_write(struct sim_end* e, struct sim_rng* rng, uint64_t now_us);
void sim_end_abort(struct sim_end* e);
void sim_end_check(const struct sim_end* e);

#endif
