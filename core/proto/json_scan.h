/* The grammar check behind json.h: one pass over a document, without recursion.
 * Internal to core/proto. */
#ifndef TMESH_PROTO_JSON_SCAN_H
#define TMESH_PROTO_JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tmesh_json_scanner {
  const uint8_t* at;
  const uint8_t* end;
};

static inline bool tmesh_json_is_space(uint8_t c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
static inline bool tmesh_json_is_digit(uint8_t c) {
  return c >= '0' && c <= '9';
}

/* Whether everything up to the end is one strict document with white space around it. */
bool tmesh_json_scan_document(struct tmesh_json_scanner* s);
/* One escape after its backslash: the code point it stands for, or -1. */
int32_t tmesh_json_scan_escape(struct tmesh_json_scanner* s);

#ifdef __cplusplus
}
#endif

#endif
