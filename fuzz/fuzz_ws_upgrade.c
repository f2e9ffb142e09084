/* Fuzzing of the client's upgrade parser, and of the keys and lists of the server side.
 * The answer must come out the same in one piece and in several, must use only bytes it
 * was given, and a success must really hold the accept value of the key.
 *
 * Input: one byte (bits 0-5 chunk size, bit 6 whether sub-protocols are offered), then
 * the answer. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/wire/ws_upgrade.h"
#include "fuzz/fuzz.h"

static const uint8_t nonce[] = "the sample nonce";
static const char* const offers[] = {"tunnelmesh.v1.open-result", "tunnelmesh.v1"};

struct outcome {
  struct tmesh_status st;
  size_t used;
  enum tmesh_ws_upgrade_error error;
  int http_status;
  int protocol;
};

static struct outcome run(const uint8_t* data, size_t size, size_t chunk, size_t offer_count) {
  struct tmesh_ws_response* r = tmesh_ws_response_new(nonce, offers, offer_count);
  struct outcome o = {.st = tmesh_again()};

  FUZZ_CHECK(r != NULL);
  while (o.st.code == TMESH_E_AGAIN && o.used < size) {
    size_t n = size - o.used < chunk ? size - o.used : chunk, used;
    uint8_t* copy = malloc(n);
    FUZZ_CHECK(copy != NULL);
    memcpy(copy, data + o.used, n);
    o.st = tmesh_ws_response_feed(r, copy, n, &used);
    free(copy);
    FUZZ_CHECK(used <= n);
    FUZZ_CHECK(o.st.code != TMESH_E_AGAIN || used == n);
    o.used += used;
  }
  o.error = tmesh_ws_response_error(r);
  o.http_status = tmesh_ws_response_http_status(r);
  o.protocol = tmesh_ws_response_protocol(r);
  FUZZ_CHECK((o.st.code == TMESH_OK || o.st.code == TMESH_E_AGAIN) == (o.error == TMESH_WS_UPGRADE_OK));
  tmesh_ws_response_free(r);
  return o;
}

static void check_lists(const uint8_t* data, size_t size) {
  struct tmesh_http_list l = tmesh_http_list_init((const char*)data, size);
  const char* item;
  size_t n;

  while (tmesh_http_list_next(&l, &item, &n)) {
    FUZZ_CHECK(n > 0 && (const uint8_t*)item >= data && (const uint8_t*)item + n <= data + size);
    FUZZ_CHECK(memchr(item, ',', n) == NULL);
  }
  (void)tmesh_http_list_has((const char*)data, size, "websocket");
  if (tmesh_ws_key_valid((const char*)data, size)) {
    char accept[TMESH_WS_ACCEPT_TEXT_BYTES];
    tmesh_ws_accept_key((const char*)data, size, accept);
    FUZZ_CHECK(strlen(accept) == sizeof accept - 1);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  struct outcome whole, chunked;
  size_t chunk, offer_count;

  if (size == 0) return 0;
  chunk = (size_t)(data[0] & 0x3F) + 1;
  offer_count = (data[0] & 0x40) != 0 ? 2 : 0;
  data++;
  size--;

  whole = run(data, size, size, offer_count);
  chunked = run(data, size, chunk, offer_count);
  FUZZ_CHECK(whole.st.code == chunked.st.code && whole.error == chunked.error);
  FUZZ_CHECK(whole.http_status == chunked.http_status);
  if (tmesh_is_ok(whole.st)) {
    FUZZ_CHECK(whole.used == chunked.used && whole.protocol == chunked.protocol);
    FUZZ_CHECK(whole.protocol < (int)offer_count && whole.used <= TMESH_WS_UPGRADE_MAX_BYTES);
    FUZZ_CHECK(memmem(data, whole.used, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", 28) != NULL);
  }
  check_lists(data, size);
  return 0;
}
