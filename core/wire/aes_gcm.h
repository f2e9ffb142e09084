/*
 * AES-GCM (NIST SP 800-38D) of a short text in one piece, without associated data: for
 * secrets that are kept in the database. Allocates inside mbedTLS, for the call only.
 */
#ifndef TMESH_WIRE_AES_GCM_H
#define TMESH_WIRE_AES_GCM_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TMESH_GCM_NONCE_BYTES = 12, TMESH_GCM_TAG_BYTES = 16 };

/* AES-128, AES-192 or AES-256. */
struct tmesh_gcm_key {
  const uint8_t* bytes;
  size_t len_bytes; /* 16, 24 or 32 */
};

/* Writes len_bytes of cipher text and the tag behind it to `out`. A nonce is used for one
 * text of a key only. INVALID: a key of another length. NO_MEMORY. */
enum tmesh_code tmesh_gcm_seal(uint8_t* out, struct tmesh_gcm_key key,
                               const uint8_t nonce[TMESH_GCM_NONCE_BYTES], const uint8_t* text,
                               size_t len_bytes);

/* Writes sealed_bytes - TMESH_GCM_TAG_BYTES bytes of text to `out`. INVALID: shorter than a tag, a
 * key of another length, or not sealed with this key and nonce; then `out` holds zeros. NO_MEMORY. */
enum tmesh_code tmesh_gcm_open(uint8_t* out, struct tmesh_gcm_key key,
                               const uint8_t nonce[TMESH_GCM_NONCE_BYTES], const uint8_t* sealed,
                               size_t sealed_bytes);

#ifdef __cplusplus
}
#endif

#endif
