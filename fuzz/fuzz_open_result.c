/* OPEN_RESULT payload: what decodes is a value that we would send ourselves, and
 * survives the way out and in again. */
#include "core/proto/open_result.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  struct tmesh_open_result r;
  struct tmesh_open_result back;
  char out[TMESH_OPEN_RESULT_MAX_BYTES];
  size_t n = 0;
  struct tmesh_status st = tmesh_open_result_decode(&r, data, size);
  if (!tmesh_is_ok(st)) {
    FUZZ_CHECK(st.scope == TMESH_SCOPE_STREAM);
    FUZZ_CHECK((st.code == TMESH_E_TOO_LARGE) == (size > TMESH_OPEN_RESULT_MAX_BYTES));
    return 0;
  }
  FUZZ_CHECK(r.accepted == (r.code == TMESH_OPEN_OK));
  FUZZ_CHECK(tmesh_is_ok(tmesh_open_result_encode(&r, out, sizeof out, &n)));
  FUZZ_CHECK(tmesh_is_ok(tmesh_open_result_decode(&back, out, n)));
  FUZZ_CHECK(back.accepted == r.accepted && back.stage == r.stage && back.code == r.code);
  FUZZ_CHECK(back.retryable == r.retryable && back.retry_after_ms == r.retry_after_ms);
  return 0;
}
