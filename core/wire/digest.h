/* SHA-256 (FIPS 180-4) and HMAC with it (RFC 2104) of a whole text. Pure, no allocation. */
#ifndef TMESH_WIRE_DIGEST_H
#define TMESH_WIRE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TMESH_SHA256_BYTES = 32 };

void tmesh_sha256(uint8_t out[TMESH_SHA256_BYTES], const void* data, size_t len_bytes);
/* Leaves no copy of the key behind. */
void tmesh_hmac_sha256(uint8_t out[TMESH_SHA256_BYTES], const void* key, size_t key_bytes, const void* data,
                       size_t len_bytes);

#ifdef __cplusplus
}
#endif

#endif
