/* Bounded reading and writing of big-endian units.
 *
 * A cursor never moves past its end: a read or write that does not fit sets
 * `failed` and returns zeros, and every later call does the same, so a caller may
 * check once at the end. Owns nothing, allocates nothing.
 */
#ifndef TMESH_BASE_CURSOR_H
#define TMESH_BASE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tmesh_reader {
  const uint8_t* at;
  size_t left_bytes;
  bool failed;
};

struct tmesh_writer {
  uint8_t* at;
  size_t left_bytes;
  bool failed;
};

static inline struct tmesh_reader tmesh_reader_init(const void* data, size_t len_bytes) {
  struct tmesh_reader r = {(const uint8_t*)data, len_bytes, false};
  return r;
}
/* The next n bytes, or NULL (and failed) if there are fewer. */
static inline const uint8_t* tmesh_reader_take(struct tmesh_reader* r, size_t n) {
  const uint8_t* p = r->at;
  if (r->failed || n > r->left_bytes) {
    r->failed = true;
    return NULL;
  }
  r->at += n;
  r->left_bytes -= n;
  return p;
}
static inline uint8_t tmesh_reader_u8(struct tmesh_reader* r) {
  const uint8_t* p = tmesh_reader_take(r, 1);
  return p == NULL ? 0 : p[0];
}
static inline uint16_t tmesh_reader_u16(struct tmesh_reader* r) {
  const uint8_t* p = tmesh_reader_take(r, 2);
  return p == NULL ? 0 : (uint16_t)(((unsigned)p[0] << 8) | p[1]);
}
static inline uint32_t tmesh_reader_u32(struct tmesh_reader* r) {
  const uint8_t* p = tmesh_reader_take(r, 4);
  return p == NULL ? 0 : ((uint32_t)p[0] << 24) | ((uint32_t)p[1] << 16) | ((uint32_t)p[2] << 8) | p[3];
}

static inline struct tmesh_writer tmesh_writer_init(void* out, size_t cap_bytes) {
  struct tmesh_writer w = {(uint8_t*)out, cap_bytes, false};
  return w;
}
static inline void tmesh_writer_bytes(struct tmesh_writer* w, const void* data, size_t n) {
  if (w->failed || n > w->left_bytes) {
    w->failed = true;
    return;
  }
  if (n > 0) memcpy(w->at, data, n);
  w->at += n;
  w->left_bytes -= n;
}
static inline void tmesh_writer_u8(struct tmesh_writer* w, uint8_t v) {
  tmesh_writer_bytes(w, &v, 1);
}
static inline void tmesh_writer_u16(struct tmesh_writer* w, uint16_t v) {
  uint8_t b[2] = {(uint8_t)(v >> 8), (uint8_t)v};
  tmesh_writer_bytes(w, b, 2);
}
static inline void tmesh_writer_u32(struct tmesh_writer* w, uint32_t v) {
  uint8_t b[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};
  tmesh_writer_bytes(w, b, 4);
}

#ifdef __cplusplus
}
#endif

#endif
