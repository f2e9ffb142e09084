#include "core/wire/digest.h"

#include <mbedtls/platform_util.h>
#include <mbedtls/sha256.h>
#include <string.h>

#include "core/base/check.h"

void tmesh_sha256(uint8_t out[TMESH_SHA256_BYTES], const void* data, size_t len_bytes) {
  /* Fails only for a null buffer or an engine that is missing, neither of which input can cause. */
  int rc = mbedtls_sha256((const unsigned char*)(len_bytes == 0 ? "" : data), len_bytes, out, 0);
  TMESH_ASSERT(rc == 0);
}

/* RFC 2104 section 2: the block of SHA-256, and the bytes that the key is mixed with. */
enum { BLOCK_BYTES = 64, INNER = 0x36, OUTER = 0x5c };

/* H((key ^ mask) || data). */
static void keyed(uint8_t out[TMESH_SHA256_BYTES], const uint8_t key[BLOCK_BYTES], uint8_t mask,
                  const void* data, size_t len_bytes) {
  uint8_t block[BLOCK_BYTES];
  mbedtls_sha256_context sha;
  int rc;

  for (size_t i = 0; i < BLOCK_BYTES; i++) block[i] = key[i] ^ mask;
  mbedtls_sha256_init(&sha);
  rc = mbedtls_sha256_starts(&sha, 0);
  if (rc == 0) rc = mbedtls_sha256_update(&sha, block, sizeof block);
  if (rc == 0 && len_bytes > 0) rc = mbedtls_sha256_update(&sha, data, len_bytes);
  if (rc == 0) rc = mbedtls_sha256_finish(&sha, out);
  TMESH_ASSERT(rc == 0);
  mbedtls_sha256_free(&sha);
  mbedtls_platform_zeroize(block, sizeof block);
}

void tmesh_hmac_sha256(uint8_t out[TMESH_SHA256_BYTES], const void* key, size_t key_bytes, const void* data,
                       size_t len_bytes) {
  uint8_t padded[BLOCK_BYTES] = {0};
  uint8_t inner[TMESH_SHA256_BYTES];

  if (key_bytes > BLOCK_BYTES) {
    tmesh_sha256(padded, key, key_bytes);
  } else if (key_bytes > 0) {
    memcpy(padded, key, key_bytes);
  }
  keyed(inner, padded, INNER, data, len_bytes);
  keyed(out, padded, OUTER, inner, sizeof inner);
  mbedtls_platform_zeroize(padded, sizeof padded);
  mbedtls_platform_zeroize(inner, sizeof inner);
}
