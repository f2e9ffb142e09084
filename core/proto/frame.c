#include "core/proto/frame.h"

#include <string.h>

#include "core/base/check.h"
#include "core/base/cursor.h"

struct type_rule {
  const char* name;
  uint32_t payload_max_bytes;
  bool is_stream_scoped;
};

/* HALF_CLOSE and WINDOW_UPDATE carry nothing, but deployed peers accept the general
 * limit for them, so a payload there is not a reason to end a link. */
static const struct type_rule rules[TMESH_FRAME_TYPE_MAX + 1] = {
    [TMESH_FRAME_OPEN_STREAM] = {"OPEN_STREAM", TMESH_PAYLOAD_MAX_BYTES, true},
    [TMESH_FRAME_DATA] = {"DATA", TMESH_PAYLOAD_MAX_BYTES, true},
    [TMESH_FRAME_HALF_CLOSE] = {"HALF_CLOSE", TMESH_PAYLOAD_MAX_BYTES, true},
    [TMESH_FRAME_RESET] = {"RESET", TMESH_PAYLOAD_MAX_BYTES, true},
    [TMESH_FRAME_WINDOW_UPDATE] = {"WINDOW_UPDATE", TMESH_PAYLOAD_MAX_BYTES, true},
    [TMESH_FRAME_GOAWAY] = {"GOAWAY", TMESH_PAYLOAD_MAX_BYTES, false},
    [TMESH_FRAME_PING] = {"PING", TMESH_PAYLOAD_MAX_BYTES, false},
    [TMESH_FRAME_PONG] = {"PONG", TMESH_PAYLOAD_MAX_BYTES, false},
    [TMESH_FRAME_AGENT_HELLO] = {"AGENT_HELLO", TMESH_METADATA_MAX_BYTES, false},
    [TMESH_FRAME_AGENT_METADATA_UPDATE] = {"AGENT_METADATA_UPDATE", TMESH_METADATA_MAX_BYTES, false},
    [TMESH_FRAME_AGENT_METADATA_ACK] = {"AGENT_METADATA_ACK", TMESH_METADATA_MAX_BYTES, false},
    [TMESH_FRAME_TRACE_START] = {"TRACE_START", TMESH_TRACE_MAX_BYTES, false},
    [TMESH_FRAME_TRACE_HOP] = {"TRACE_HOP", TMESH_TRACE_MAX_BYTES, false},
    [TMESH_FRAME_TRACE_END] = {"TRACE_END", TMESH_TRACE_MAX_BYTES, false},
    [TMESH_FRAME_OPEN_RESULT] = {"OPEN_RESULT", TMESH_OPEN_RESULT_MAX_BYTES, true},
    [TMESH_FRAME_CLIENT_HELLO] = {"CLIENT_HELLO", TMESH_METADATA_MAX_BYTES, false},
    [TMESH_FRAME_CLIENT_METADATA_UPDATE] = {"CLIENT_METADATA_UPDATE", TMESH_METADATA_MAX_BYTES, false},
    [TMESH_FRAME_CLIENT_METADATA_ACK] = {"CLIENT_METADATA_ACK", TMESH_METADATA_MAX_BYTES, false},
};

enum decoder_phase { PHASE_HEADER = 0, PHASE_PAYLOAD, PHASE_ENDED };

static bool is_known(unsigned type) {
  return type >= 1 && type <= TMESH_FRAME_TYPE_MAX;
}

uint32_t tmesh_frame_payload_max(unsigned type) {
  return is_known(type) ? rules[type].payload_max_bytes : 0;
}

bool tmesh_frame_is_stream_scoped(unsigned type) {
  return is_known(type) && rules[type].is_stream_scoped;
}

const char* tmesh_frame_type_name(unsigned type) {
  return is_known(type) ? rules[type].name : "UNKNOWN";
}

/* Everything but the version, in the documented order. */
static struct tmesh_status validate(const struct tmesh_frame_header* h) {
  if (!is_known(h->type)) return tmesh_err_session(TMESH_E_FRAME_TYPE);
  if (h->length_bytes > rules[h->type].payload_max_bytes) return tmesh_err_session(TMESH_E_FRAME_LENGTH);
  if (h->stream_id == 0 && rules[h->type].is_stream_scoped) return tmesh_err_session(TMESH_E_FRAME_STREAM_ID);
  if (h->type == TMESH_FRAME_WINDOW_UPDATE && h->window_bytes == 0) {
    return tmesh_err_stream(TMESH_E_WINDOW_ZERO);
  }
  return tmesh_ok();
}

struct tmesh_status tmesh_frame_header_encode(uint8_t out[TMESH_FRAME_HEADER_BYTES],
                                              const struct tmesh_frame_header* header) {
  struct tmesh_status st = validate(header);
  if (!tmesh_is_ok(st)) return st;
  struct tmesh_writer w = tmesh_writer_init(out, TMESH_FRAME_HEADER_BYTES);
  tmesh_writer_u8(&w, TMESH_PROTOCOL_VERSION);
  tmesh_writer_u8(&w, header->type);
  tmesh_writer_u16(&w, header->flags);
  tmesh_writer_u32(&w, header->stream_id);
  tmesh_writer_u32(&w, header->length_bytes);
  tmesh_writer_u32(&w, header->window_bytes);
  TMESH_ASSERT(!w.failed && w.left_bytes == 0);
  return tmesh_ok();
}

struct tmesh_status tmesh_frame_header_decode(struct tmesh_frame_header* header,
                                              const uint8_t in[TMESH_FRAME_HEADER_BYTES]) {
  struct tmesh_reader r = tmesh_reader_init(in, TMESH_FRAME_HEADER_BYTES);
  *header = (struct tmesh_frame_header){0};
  if (tmesh_reader_u8(&r) != TMESH_PROTOCOL_VERSION) return tmesh_err_session(TMESH_E_FRAME_VERSION);
  header->type = tmesh_reader_u8(&r);
  header->flags = tmesh_reader_u16(&r);
  header->stream_id = tmesh_reader_u32(&r);
  header->length_bytes = tmesh_reader_u32(&r);
  header->window_bytes = tmesh_reader_u32(&r);
  TMESH_ASSERT(!r.failed && r.left_bytes == 0);
  return validate(header);
}

void tmesh_frame_decoder_begin(struct tmesh_frame_decoder* d) {
  *d = (struct tmesh_frame_decoder){0};
}

/* Collects header bytes; HEADER once all 16 are there. */
static struct tmesh_status decode_header(struct tmesh_frame_decoder* d, const uint8_t* data, size_t len,
                                         size_t* used, struct tmesh_frame_event* event) {
  size_t missing = TMESH_FRAME_HEADER_BYTES - d->partial_len_bytes;
  size_t take = len < missing ? len : missing;
  if (take > 0) memcpy(d->partial + d->partial_len_bytes, data, take);
  d->partial_len_bytes += (uint8_t)take;
  *used = take;
  if (take < missing) return tmesh_ok();
  struct tmesh_status st = tmesh_frame_header_decode(&d->header, d->partial);
  if (st.scope == TMESH_SCOPE_SESSION) return st;
  d->payload_left_bytes = d->header.length_bytes;
  d->phase = PHASE_PAYLOAD;
  event->kind = TMESH_FRAME_EVENT_HEADER;
  return tmesh_ok();
}

struct tmesh_status tmesh_frame_decode(struct tmesh_frame_decoder* d, const uint8_t* data, size_t len,
                                       size_t* used, struct tmesh_frame_event* event) {
  *event = (struct tmesh_frame_event){TMESH_FRAME_EVENT_NONE, NULL, 0};
  *used = 0;
  if (d->phase == PHASE_HEADER) return decode_header(d, data, len, used, event);
  if (d->phase == PHASE_ENDED) {
    *used = len;
    return tmesh_ok();
  }
  if (d->payload_left_bytes == 0) {
    d->phase = PHASE_ENDED;
    event->kind = TMESH_FRAME_EVENT_END;
    return tmesh_ok();
  }
  size_t take = len < d->payload_left_bytes ? len : d->payload_left_bytes;
  if (take == 0) return tmesh_ok();
  event->kind = TMESH_FRAME_EVENT_PAYLOAD;
  event->data = data;
  event->len_bytes = take;
  d->payload_left_bytes -= (uint32_t)take;
  *used = take;
  return tmesh_ok();
}

struct tmesh_status tmesh_frame_decoder_finish(const struct tmesh_frame_decoder* d) {
  return d->phase == PHASE_ENDED ? tmesh_ok() : tmesh_err_session(TMESH_E_TRUNCATED);
}
