/* Keys and header lists: the part of the upgrade that both sides share. */
#include <mbedtls/base64.h>
#include <mbedtls/sha1.h>
#include <string.h>

#include "core/base/check.h"
#include "core/wire/ws_upgrade.h"

#define KEY_TEXT_LEN (TMESH_WS_KEY_TEXT_BYTES - 1)

/* RFC 6455 section 1.3. */
static const char accept_guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

static bool is_base64(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/';
}

bool tmesh_ws_key_valid(const char* key, size_t len_bytes) {
  if (len_bytes != KEY_TEXT_LEN) return false;
  for (size_t i = 0; i < KEY_TEXT_LEN - 2; i++) {
    if (!is_base64(key[i])) return false;
  }
  return key[KEY_TEXT_LEN - 2] == '=' && key[KEY_TEXT_LEN - 1] == '=';
}

void tmesh_ws_accept_key(const char* key, size_t len_bytes, char out[TMESH_WS_ACCEPT_TEXT_BYTES]) {
  unsigned char input[KEY_TEXT_LEN + sizeof accept_guid - 1];
  unsigned char digest[20];
  size_t written = 0;

  TMESH_ASSERT(tmesh_ws_key_valid(key, len_bytes));
  memcpy(input, key, KEY_TEXT_LEN);
  memcpy(input + KEY_TEXT_LEN, accept_guid, sizeof accept_guid - 1);
  TMESH_ASSERT(mbedtls_sha1(input, sizeof input, digest) == 0);
  TMESH_ASSERT(mbedtls_base64_encode((unsigned char*)out, TMESH_WS_ACCEPT_TEXT_BYTES, &written, digest,
                                     sizeof digest) == 0);
}

static bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

bool tmesh_http_list_next(struct tmesh_http_list* l, const char** item, size_t* item_bytes) {
  while (l->left_bytes > 0) {
    const char* start = l->at;
    const char* comma = memchr(start, ',', l->left_bytes);
    size_t n = comma == NULL ? l->left_bytes : (size_t)(comma - start);
    size_t step = comma == NULL ? n : n + 1;

    l->at += step;
    l->left_bytes -= step;
    for (; n > 0 && is_blank(*start); start++) n--;
    while (n > 0 && is_blank(start[n - 1])) n--;
    if (n == 0) continue;
    *item = start;
    *item_bytes = n;
    return true;
  }
  return false;
}

static char lower(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool tmesh_http_list_has(const char* value, size_t len_bytes, const char* token) {
  struct tmesh_http_list l = tmesh_http_list_init(value, len_bytes);
  const size_t token_bytes = strlen(token);
  const char* item;
  size_t n;

  while (tmesh_http_list_next(&l, &item, &n)) {
    size_t i = 0;
    if (n != token_bytes) continue;
    while (i < n && lower(item[i]) == lower(token[i])) i++;
    if (i == n) return true;
  }
  return false;
}
