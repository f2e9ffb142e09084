/* Times as deployed peers write them: RFC 3339, up to nine fraction digits. Pure functions. */
#ifndef TMESH_PROTO_RFC3339_H
#define TMESH_PROTO_RFC3339_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tmesh_time {
  int64_t unix_s;
  uint32_t nanos; /* below 1,000,000,000 */
};

/* "9999-12-31T23:59:59.999999999Z" and the terminator. */
#define TMESH_TIME_SIZE 31u
/* 0001-01-01T00:00:00Z: deployed peers send it for "not set", and never omit it. */
#define TMESH_TIME_ZERO_UNIX_S (-INT64_C(62135596800))
#define TMESH_TIME_MAX_UNIX_S INT64_C(253402300799) /* 9999-12-31T23:59:59Z */

static inline bool tmesh_time_is_zero(struct tmesh_time t) {
  return t.unix_s == TMESH_TIME_ZERO_UNIX_S && t.nanos == 0;
}
/* UTC with a "Z"; trailing zeros of the fraction are dropped, and the point with
 * them. Times outside the years 1-9999 are clamped to them. */
void tmesh_time_format(char out[TMESH_TIME_SIZE], struct tmesh_time t);
/* Any offset; a fraction beyond nine digits is cut; second 60 is refused. False for anything else. */
bool tmesh_time_parse(struct tmesh_time* t, const char* text, size_t len_bytes);

#ifdef __cplusplus
}
#endif

#endif
