#include "core/wire/digest.h"

#include <mbedtls/sha256.h>

#include "core/base/check.h"

void tmesh_sha256(uint8_t out[TMESH_SHA256_BYTES], const void* data, size_t len_bytes) {
  /* Fails only for a null buffer or an engine that is missing, neither of which input can cause. */
  int rc = mbedtls_sha256((const unsigned char*)(len_bytes == 0 ? "" : data), len_bytes, out, 0);
  TMESH_ASSERT(rc == 0);
}
