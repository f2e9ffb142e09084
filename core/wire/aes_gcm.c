#include "core/wire/aes_gcm.h"

#include <mbedtls/gcm.h>
#include <string.h>

/* What mbedTLS says about memory; every other failure comes from the arguments. */
static enum tmesh_code code_of(int rc) {
  if (rc == 0) return TMESH_OK;
  return rc == MBEDTLS_ERR_CIPHER_ALLOC_FAILED ? TMESH_E_NO_MEMORY : TMESH_E_INVALID;
}

static enum tmesh_code start(mbedtls_gcm_context* gcm, struct tmesh_gcm_key key) {
  mbedtls_gcm_init(gcm);
  if (key.len_bytes != 16 && key.len_bytes != 24 && key.len_bytes != 32) return TMESH_E_INVALID;
  return code_of(mbedtls_gcm_setkey(gcm, MBEDTLS_CIPHER_ID_AES, key.bytes, (unsigned)key.len_bytes * 8));
}

enum tmesh_code tmesh_gcm_seal(uint8_t* out, struct tmesh_gcm_key key,
                               const uint8_t nonce[TMESH_GCM_NONCE_BYTES], const uint8_t* text,
                               size_t len_bytes) {
  mbedtls_gcm_context gcm;
  enum tmesh_code code = start(&gcm, key);
  if (code == TMESH_OK) {
    code =
        code_of(mbedtls_gcm_crypt_and_tag(&gcm, MBEDTLS_GCM_ENCRYPT, len_bytes, nonce, TMESH_GCM_NONCE_BYTES,
                                          NULL, 0, text, out, TMESH_GCM_TAG_BYTES, out + len_bytes));
  }
  mbedtls_gcm_free(&gcm);
  return code;
}

enum tmesh_code tmesh_gcm_open(uint8_t* out, struct tmesh_gcm_key key,
                               const uint8_t nonce[TMESH_GCM_NONCE_BYTES], const uint8_t* sealed,
                               size_t sealed_bytes) {
  if (sealed_bytes < TMESH_GCM_TAG_BYTES) return TMESH_E_INVALID;
  const size_t text_bytes = sealed_bytes - TMESH_GCM_TAG_BYTES;
  mbedtls_gcm_context gcm;
  enum tmesh_code code = start(&gcm, key);
  if (code == TMESH_OK) {
    code = code_of(mbedtls_gcm_auth_decrypt(&gcm, text_bytes, nonce, TMESH_GCM_NONCE_BYTES, NULL, 0,
                                            sealed + text_bytes, TMESH_GCM_TAG_BYTES, sealed, out));
  }
  if (code != TMESH_OK) memset(out, 0, text_bytes);
  mbedtls_gcm_free(&gcm);
  return code;
}
