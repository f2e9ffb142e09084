#include <string.h>

#include "core/loop/link_internal.h"

/* Bytes of the present message. Only SESSION statuses come back. */
static struct tmesh_status take_message(struct tmesh_link* l, const uint8_t* data, size_t n) {
  while (!l->is_frame_done) {
    struct tmesh_frame_event ev;
    size_t used;
    struct tmesh_status st = tmesh_frame_decode(&l->frame, data, n, &used, &ev);

    /* A STREAM status is the mux's: it finds the fault in the header. */
    if (st.scope == TMESH_SCOPE_SESSION) return st;
    data += used;
    n -= used;
    switch (ev.kind) {
      case TMESH_FRAME_EVENT_HEADER:
        st = tmesh_mux_frame_header(&l->mux, &l->frame.header);
        break;
      case TMESH_FRAME_EVENT_PAYLOAD:
        st = tmesh_mux_frame_payload(&l->mux, ev.data, ev.len_bytes);
        break;
      case TMESH_FRAME_EVENT_END:
        l->is_frame_done = true;
        st = tmesh_mux_frame_end(&l->mux);
        break;
      case TMESH_FRAME_EVENT_NONE:
        return tmesh_ok();
    }
    if (!tmesh_is_ok(st)) return st;
    if (l->is_down) return tmesh_ok(); /* an event handler ended the link */
  }
  return tmesh_ok();
}

/* The end of a message without a byte more: the place decoding goes on from. */
static const uint8_t nothing[1];

static struct tmesh_status take_event(struct tmesh_link* l, const struct tmesh_ws_event* ev) {
  switch (ev->kind) {
    case TMESH_WS_MESSAGE_BEGIN:
      tmesh_frame_decoder_begin(&l->frame);
      l->is_frame_done = false;
      return tmesh_ok();
    case TMESH_WS_MESSAGE_DATA:
      return take_message(l, ev->data, ev->len_bytes);
    case TMESH_WS_MESSAGE_END:
      /* An empty payload ends with the header, which may just have been read. */
      if (!l->is_frame_done) {
        const struct tmesh_status st = take_message(l, nothing, 0);
        if (!tmesh_is_ok(st) || l->is_down) return st;
      }
      return tmesh_frame_decoder_finish(&l->frame);
    case TMESH_WS_PING:
      /* Only the newest needs an answer (RFC 6455 section 5.5.3): a flood cannot pile up. */
      memcpy(l->pong, ev->data != NULL ? ev->data : l->pong, ev->len_bytes);
      l->pong_len_bytes = (uint8_t)ev->len_bytes;
      l->owes_pong = true;
      tmesh_link_kick(l);
      return tmesh_ok();
    case TMESH_WS_CLOSE:
      l->close_code = ev->close_code == TMESH_WS_CLOSE_NO_STATUS ? TMESH_WS_CLOSE_NORMAL : ev->close_code;
      return tmesh_err_session(TMESH_E_CLOSED);
    case TMESH_WS_PONG:
    case TMESH_WS_NONE:
      return tmesh_ok();
  }
  return tmesh_ok();
}

void tmesh_link_input(struct tmesh_link* l, uint8_t* data, size_t len_bytes) {
  struct tmesh_ws_event ev;

  do {
    size_t used;
    struct tmesh_status st = tmesh_ws_decode(&l->ws, data, len_bytes, &used, &ev);
    if (tmesh_is_ok(st)) st = take_event(l, &ev);
    if (!tmesh_is_ok(st)) {
      tmesh_link_go_down(l, st);
      return;
    }
    data += used;
    len_bytes -= used;
  } while (ev.kind != TMESH_WS_NONE && !l->is_down);
}
