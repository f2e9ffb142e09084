/* Standard base64 with padding (RFC 4648 section 4). Pure functions, no allocation. */
#ifndef TMESH_PROTO_BASE64_H
#define TMESH_PROTO_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Characters of n encoded bytes, and with the terminator. */
#define TMESH_BASE64_LEN(n) (((n) + 2) / 3 * 4)
#define TMESH_BASE64_SIZE(n) (TMESH_BASE64_LEN(n) + 1)

/* Writes TMESH_BASE64_LEN(len_bytes) characters and a terminator. */
void tmesh_base64_encode(char* out, const uint8_t* data, size_t len_bytes);
/* Strict: no white space, padding where it belongs, unused bits zero, so that one
 * value has one text. False for anything else or when cap is short. */
bool tmesh_base64_decode(uint8_t* out, size_t cap_bytes, size_t* len_bytes, const char* text,
                         size_t text_len_bytes);

#ifdef __cplusplus
}
#endif

#endif
