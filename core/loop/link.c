#include "core/loop/link.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/loop/link_internal.h"
#include "core/loop/memory.h"

/* Dispatches at the end of a link before the rest waits for the next round. */
#define LAST_DISPATCHES_MAX 8u
/* How often a closed link looks whether its streams were released. */
#define RELEASE_LOOK_US UINT64_C(100000)

uint16_t tmesh_link_close_code(unsigned code) {
  switch (code) {
    case TMESH_OK:
    case TMESH_E_CLOSED:
      return TMESH_WS_CLOSE_NORMAL;
    case TMESH_E_TIMEOUT:
    case TMESH_E_CANCELLED:
      return TMESH_WS_CLOSE_GOING_AWAY;
    case TMESH_E_WS_TEXT:
    case TMESH_E_UNSUPPORTED:
      return TMESH_WS_CLOSE_UNSUPPORTED_DATA;
    case TMESH_E_TOO_LARGE:
    case TMESH_E_FRAME_LENGTH:
      return TMESH_WS_CLOSE_TOO_BIG;
    case TMESH_E_INVALID:
    case TMESH_E_TRUNCATED:
    case TMESH_E_STATE:
    case TMESH_E_FRAME_VERSION:
    case TMESH_E_FRAME_TYPE:
    case TMESH_E_FRAME_STREAM_ID:
    case TMESH_E_FRAME_PAYLOAD:
    case TMESH_E_DUPLICATE_STREAM:
    case TMESH_E_WINDOW_ZERO:
    case TMESH_E_WINDOW_OVERFLOW:
    case TMESH_E_WINDOW_EXCEEDED:
    case TMESH_E_WS_PROTOCOL:
      return TMESH_WS_CLOSE_PROTOCOL;
    case TMESH_E_POLICY:
    case TMESH_E_LIMIT:
      return TMESH_WS_CLOSE_POLICY;
    default:
      return TMESH_WS_CLOSE_INTERNAL;
  }
}

/* --- the end ------------------------------------------------------------------- */

static void on_closed(struct tmesh_closing* closing) {
  struct tmesh_link* l = TMESH_CONTAINER(closing, struct tmesh_link, closing);
  l->events->on_closed(l->ctx);
}

static bool has_unreleased_stream(struct tmesh_link* l) {
  for (struct tmesh_list* n = l->mux.all.next; n != &l->mux.all; n = n->next) {
    if (!TMESH_CONTAINER(n, struct tmesh_stream, in_all)->is_released) return true;
  }
  return false;
}

/* Phase two, when the transport is closed and nobody holds a stream. */
static void finish_close(struct tmesh_link* l) {
  if (!l->is_transport_closed || !l->is_down_delivered) return;
  if (has_unreleased_stream(l)) {
    tmesh_alarm_set(l->loop, &l->alarm, tmesh_loop_now_us(l->loop) + RELEASE_LOOK_US);
    return;
  }
  tmesh_alarm_clear(&l->alarm);
  tmesh_list_remove(&l->in_memory);
  tmesh_mux_close(&l->mux);
  tmesh_flush_cancel(&l->flush);
  tmesh_link_output_free(l);
  free(l->early);
  l->early = NULL;
  tmesh_closing_end(&l->closing);
}

void tmesh_link_go_down(struct tmesh_link* l, struct tmesh_status why) {
  if (l->is_down) return;
  l->is_down = true;
  l->down_status = tmesh_err_session((enum tmesh_code)why.code);
  if (l->close_code == 0) l->close_code = tmesh_link_close_code(why.code);
  tmesh_list_remove(&l->in_resting);
  tmesh_list_remove(&l->in_due);
  if (!l->closing.is_begun) tmesh_closing_begin(&l->closing, l->loop, on_closed);
  tmesh_alarm_clear(&l->alarm);
  tmesh_transport_read(l->transport, false);
  tmesh_loop_flush_request(l->loop, &l->flush);
}

/* Streams first, then the peer, then the owner. */
static void deliver_down(struct tmesh_link* l) {
  bool is_more = true;
  tmesh_mux_fail(&l->mux, l->down_status);
  for (unsigned i = 0; i < LAST_DISPATCHES_MAX && is_more; i++) is_more = tmesh_mux_dispatch(&l->mux);
  if (is_more) {
    tmesh_loop_flush_request(l->loop, &l->flush);
    return;
  }
  l->is_down_delivered = true;
  tmesh_link_output_close(l);
  tmesh_transport_close(l->transport, true);
  l->events->on_down(l->ctx, l->down_status);
}

static void on_alarm(struct tmesh_alarm* alarm) {
  struct tmesh_link* l = TMESH_CONTAINER(alarm, struct tmesh_link, alarm);
  if (l->is_down) {
    finish_close(l);
  } else {
    tmesh_link_go_down(l, tmesh_err_session(TMESH_E_CLOSED));
  }
}

/* --- the transport's events -------------------------------------------------------- */

static void on_transport_ready(void* ctx, struct tmesh_status st) {
  /* It was ready when the link took it over. */
  (void)ctx;
  (void)st;
}

static void on_transport_data(void* ctx, uint8_t* data, size_t len_bytes) {
  struct tmesh_link* l = ctx;
  if (l->is_down) return;
  tmesh_mux_set_time(&l->mux, tmesh_loop_now_us(l->loop));
  tmesh_link_input(l, data, len_bytes);
  if (l->is_down || !tmesh_memory_is_short(l->loop)) return;
  tmesh_transport_read(l->transport, false);
  tmesh_memory_rest(l->loop, l);
}

void tmesh_link_rested(struct tmesh_link* l) {
  if (!l->is_down) tmesh_transport_read(l->transport, true);
}

static void on_transport_eof(void* ctx) {
  tmesh_link_go_down(ctx, tmesh_err_session(TMESH_E_CLOSED));
}

static void on_transport_written(void* ctx) {
  struct tmesh_link* l = ctx;
  if (!l->is_down) tmesh_link_output_written(l);
}

static void on_transport_error(void* ctx, struct tmesh_status st) {
  tmesh_link_go_down(ctx, st);
}

static void on_transport_closed(void* ctx) {
  struct tmesh_link* l = ctx;
  l->is_transport_closed = true;
  finish_close(l);
}

static const struct tmesh_transport_events transport_events = {
    on_transport_ready,   on_transport_data,  on_transport_eof,
    on_transport_written, on_transport_error, on_transport_closed,
};

/* --- the mux's events, passed on ------------------------------------------------------ */

static void on_mux_open(void* ctx, struct tmesh_stream* stream, const struct tmesh_open_stream* open) {
  struct tmesh_link* l = ctx;
  if (l->mux_events->on_open != NULL) l->mux_events->on_open(l->mux_events_ctx, stream, open);
}

static struct tmesh_status on_mux_control(void* ctx, const struct tmesh_frame_header* header,
                                          const uint8_t* payload, size_t len_bytes) {
  struct tmesh_link* l = ctx;
  return l->mux_events->on_control(l->mux_events_ctx, header, payload, len_bytes);
}

static void on_mux_pong(void* ctx, const uint8_t* payload, size_t len_bytes) {
  struct tmesh_link* l = ctx;
  if (l->mux_events->on_pong != NULL) l->mux_events->on_pong(l->mux_events_ctx, payload, len_bytes);
}

static void on_mux_goaway(void* ctx) {
  struct tmesh_link* l = ctx;
  if (l->mux_events->on_goaway != NULL) l->mux_events->on_goaway(l->mux_events_ctx);
}

static void on_mux_dirty(void* ctx) {
  tmesh_link_kick(ctx);
}

static void on_mux_memory_full(void* ctx, const struct tmesh_stream* keep) {
  tmesh_memory_full(((struct tmesh_link*)ctx)->loop, keep);
}

static uint64_t on_mux_now(void* ctx) {
  return tmesh_loop_now_us(((struct tmesh_link*)ctx)->loop);
}

static const struct tmesh_mux_events mux_events = {
    on_mux_open, on_mux_control, on_mux_pong, on_mux_goaway, on_mux_dirty, on_mux_memory_full, on_mux_now,
};

/* --- flush ------------------------------------------------------------------------- */

/* Early bytes come first, then what the transport reads. */
static void start(struct tmesh_link* l) {
  uint8_t* early = l->early;
  l->is_started = true;
  l->early = NULL;
  if (early != NULL) tmesh_link_input(l, early, l->early_len_bytes);
  free(early);
  if (!l->is_down) tmesh_transport_read(l->transport, true);
}

/* Close was asked for: one more batch, and when it went, the end. */
static void advance_close(struct tmesh_link* l) {
  if (!l->is_last_pulled) {
    l->is_last_pulled = true;
    tmesh_link_output_once(l);
  }
  if (!l->is_writing) tmesh_link_go_down(l, tmesh_err_session(TMESH_E_CLOSED));
}

/* Streams are freed inside the mux: what a flush finds missing went back to the heap. */
static void note_freed_streams(struct tmesh_link* l) {
  const size_t now_count = l->mux.streams.count;
  if (now_count < l->noted_streams_count) {
    tmesh_memory_freed(l->loop, (l->noted_streams_count - now_count) * sizeof(struct tmesh_stream));
  }
  l->noted_streams_count = now_count;
}

/* Bytes that the mux holds back leave when the timer brings the next flush. One timer for all
 * links: few of them ever need it. */
static void on_due(uv_timer_t* timer) {
  struct tmesh_loop* loop = timer->data;
  loop->due_at_us = UINT64_MAX;
  for (struct tmesh_list* n; (n = tmesh_list_first(&loop->due_links)) != NULL;) {
    tmesh_list_remove(n);
    tmesh_link_kick(TMESH_CONTAINER(n, struct tmesh_link, in_due));
  }
}

int tmesh_link_due_init(struct tmesh_loop* loop) {
  tmesh_list_init(&loop->due_links);
  loop->due_at_us = UINT64_MAX;
  loop->due_timer.data = loop;
  return uv_timer_init(&loop->uv, &loop->due_timer);
}

static void arm_due(struct tmesh_link* l) {
  struct tmesh_loop* loop = l->loop;
  const uint64_t due_us = tmesh_mux_due_us(&l->mux);
  if (due_us == UINT64_MAX) return;
  if (!tmesh_list_linked(&l->in_due)) tmesh_list_push_back(&loop->due_links, &l->in_due);
  if (due_us >= loop->due_at_us) return;
  const uint64_t now_us = tmesh_loop_now_us(loop);
  loop->due_at_us = due_us;
  const int rc =
      uv_timer_start(&loop->due_timer, on_due, due_us > now_us ? (due_us - now_us + 999) / 1000 : 0, 0);
  TMESH_ASSERT(rc == 0);
}

static void on_flush(struct tmesh_flush* flush) {
  struct tmesh_link* l = TMESH_CONTAINER(flush, struct tmesh_link, flush);

  tmesh_mux_set_time(&l->mux, tmesh_loop_now_us(l->loop));
  note_freed_streams(l);
  if (!l->is_started && !l->is_down) start(l);
  /* The mux also fails by itself (an exhausted control queue). */
  if (!l->is_down && !tmesh_is_ok(l->mux.failed)) tmesh_link_go_down(l, l->mux.failed);
  if (l->is_down) {
    if (!l->is_down_delivered) deliver_down(l);
    return;
  }
  if (tmesh_mux_dispatch(&l->mux)) tmesh_link_kick(l);
  if (l->is_down) return;
  if (l->is_close_wanted) {
    if (!l->is_writing) advance_close(l);
  } else {
    tmesh_link_output(l);
    if (!l->is_down) arm_due(l);
  }
}

/* --- life -------------------------------------------------------------------------- */

static struct tmesh_status allocate(struct tmesh_link* l, const struct tmesh_mux_config* mux_config,
                                    const uint8_t* early, size_t early_len_bytes) {
  struct tmesh_mux_config config = *mux_config;
  struct tmesh_status st = tmesh_link_output_init(l);

  if (!tmesh_is_ok(st)) return st;
  if (early_len_bytes > 0) {
    l->early = malloc(early_len_bytes);
    if (l->early == NULL) return tmesh_err_session(TMESH_E_NO_MEMORY);
    memcpy(l->early, early, early_len_bytes);
    l->early_len_bytes = early_len_bytes;
  }
  config.events = &mux_events;
  config.events_ctx = l;
  if (config.pool == NULL) config.pool = &l->loop->pool;
  st = tmesh_mux_init(&l->mux, &config);
  if (!tmesh_is_ok(st)) free(l->early);
  return st;
}

struct tmesh_status tmesh_link_open(struct tmesh_link* l, struct tmesh_transport* transport, bool is_client,
                                    const struct tmesh_mux_config* mux_config,
                                    const struct tmesh_link_events* events, void* ctx, const uint8_t* early,
                                    size_t early_len_bytes) {
  memset(l, 0, sizeof *l);
  l->loop = transport->loop;
  l->transport = transport;
  l->events = events;
  l->ctx = ctx;
  l->mux_events = mux_config->events;
  l->mux_events_ctx = mux_config->events_ctx;
  l->is_client = is_client;
  tmesh_list_init(&l->in_due);
  tmesh_list_init(&l->in_memory);
  tmesh_list_init(&l->in_resting);
  tmesh_flush_init(&l->flush, on_flush);
  tmesh_alarm_init(&l->alarm, on_alarm);
  const struct tmesh_status st = allocate(l, mux_config, early, early_len_bytes);
  if (!tmesh_is_ok(st)) return st;
  tmesh_list_push_back(&l->loop->memory.links, &l->in_memory);
  tmesh_mux_set_time(&l->mux, tmesh_loop_now_us(l->loop));
  tmesh_ws_decoder_init(&l->ws, is_client ? TMESH_WS_CLIENT : TMESH_WS_SERVER, TMESH_WS_MESSAGE_MAX_BYTES);
  /* The answer to the upgrade may still be on its way; its on_written comes to the link. */
  l->is_writing = transport->is_write_pending || transport->owes_written;
  /* Not before the early bytes were processed: the flush reads on. */
  tmesh_transport_read(transport, false);
  tmesh_transport_rebind(transport, &transport_events, l);
  tmesh_transport_set_lowat(transport, TMESH_LINK_LOWAT_BYTES);
  tmesh_loop_flush_request(l->loop, &l->flush);
  return tmesh_ok();
}

void tmesh_link_ws_ping(struct tmesh_link* l) {
  l->owes_ping = true;
  tmesh_link_kick(l);
}

uint64_t tmesh_link_last_read_us(const struct tmesh_link* l) {
  return l->transport->stats.last_read_us;
}

void tmesh_link_fail(struct tmesh_link* l, struct tmesh_status why) {
  TMESH_ASSERT(why.code != TMESH_OK && why.code != TMESH_E_AGAIN);
  tmesh_link_go_down(l, why);
}

void tmesh_link_close(struct tmesh_link* l) {
  if (l->is_down || l->is_close_wanted) return;
  l->is_close_wanted = true;
  /* From here on: the loop waits for a batch that is still being written, too. */
  tmesh_closing_begin(&l->closing, l->loop, on_closed);
  tmesh_alarm_set(l->loop, &l->alarm, tmesh_loop_now_us(l->loop) + TMESH_LINK_CLOSE_US);
  tmesh_loop_flush_request(l->loop, &l->flush);
}

void tmesh_link_kick(struct tmesh_link* l) {
  if (!l->is_down) tmesh_loop_flush_request(l->loop, &l->flush);
}
