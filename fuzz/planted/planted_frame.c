/* The frame target with a planted bug, to show that its properties can fail: a caller
 * of the decoder that loses the last byte of a payload piece when the piece ends
 * exactly where the input does and the frame goes on. The fuzzer must find it within
 * seconds (see run.sh); if it does not, the real target is not looking. */
#include "core/proto/frame.h"

static struct tmesh_status planted_decode(struct tmesh_frame_decoder* d, const uint8_t* data, size_t len,
                                          size_t* used, struct tmesh_frame_event* event) {
  struct tmesh_status st = tmesh_frame_decode(d, data, len, used, event);
  if (event->kind == TMESH_FRAME_EVENT_PAYLOAD && d->payload_left_bytes > 0 && event->len_bytes > 1) {
    event->len_bytes--;
  }
  return st;
}

#define tmesh_frame_decode planted_decode
#include "fuzz/fuzz_frame.c"
