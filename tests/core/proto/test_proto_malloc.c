#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "core/proto/metadata.h"
#include "core/proto/open_result.h"
#include "core/proto/open_stream.h"

void* __real_malloc(size_t n);
void* __real_calloc(size_t n, size_t size);
void* __real_realloc(void* p, size_t n);
void* __wrap_malloc(size_t n);
void* __wrap_calloc(size_t n, size_t size);
void* __wrap_realloc(void* p, size_t n);

static unsigned count;   /* allocations since it was last set to 0 */
static unsigned fail_at; /* the allocation that is refused; 0 = none */

static int is_refused(void) {
  return ++count == fail_at;
}
void* __wrap_malloc(size_t n) {
  return is_refused() ? NULL : __real_malloc(n);
}
void* __wrap_calloc(size_t n, size_t size) {
  return is_refused() ? NULL : __real_calloc(n, size);
}
void* __wrap_realloc(void* p, size_t n) {
  return is_refused() ? NULL : __real_realloc(p, n);
}

/* cJSON is a shared library: its calls are not wrapped, so it is told where to ask. */
static void* hook_malloc(size_t n) {
  return __wrap_malloc(n);
}

static int install_hooks(void** state) {
  (void)state;
  cJSON_Hooks hooks = {hook_malloc, free};
  cJSON_InitHooks(&hooks);
  return 0;
}

static void the_open_path_allocates_nothing(void** state) {
  (void)state;
  struct tmesh_open_stream o;
  struct tmesh_open_result r = tmesh_open_refuse(TMESH_STAGE_DNS, TMESH_OPEN_HOST_UNREACHABLE, true);
  char out[TMESH_OPEN_STREAM_MAX_BYTES];
  size_t n = 0;
  memset(&o, 0, sizeof o);
  strcpy(o.target_host, "h\"\\");
  o.target_port = 1;
  o.metadata_len_bytes = 100;
  count = 0;
  for (int i = 0; i < 100; i++) {
    assert_int_equal(tmesh_open_stream_encode(&o, out, sizeof out, &n).code, TMESH_OK);
    assert_int_equal(tmesh_open_stream_decode(&o, out, n).code, TMESH_OK);
    assert_int_equal(tmesh_open_result_encode(&r, out, sizeof out, &n).code, TMESH_OK);
    assert_int_equal(tmesh_open_result_decode(&r, out, n).code, TMESH_OK);
  }
  assert_int_equal(count, 0);
}

static struct tmesh_agent_metadata agent_sample(void) {
  struct tmesh_agent_metadata m = {.agent_id = "a", .node_id = "n", .epoch = 1, .revision = 1};
  m.capabilities = TMESH_CAP_OPEN_RESULT;
  m.item_count = 1;
  m.error_count = 1;
  m.items[0] = (struct tmesh_metadata_item){"k", "env", "v", false};
  m.errors[0] = (struct tmesh_metadata_error){"n", "c", "m"};
  return m;
}

/* Refuses the first, the second, ... allocation of an encode until one passes. Leaks
 * are found by the sanitizer build. */
#define ASSERT_EVERY_REFUSAL_IS_CLEAN(call)           \
  do {                                                \
    unsigned refusals = 0;                            \
    for (unsigned nth = 1;; nth++) {                  \
      count = 0;                                      \
      fail_at = nth;                                  \
      struct tmesh_status st = (call);                \
      unsigned used = count;                          \
      fail_at = 0;                                    \
      if (used < nth) {                               \
        assert_int_equal(st.code, TMESH_OK);          \
        break;                                        \
      }                                               \
      assert_int_equal(st.code, TMESH_E_NO_MEMORY);   \
      assert_int_equal(st.scope, TMESH_SCOPE_STREAM); \
      refusals++;                                     \
    }                                                 \
    assert_true(refusals > 0);                        \
  } while (0)

static void every_refused_allocation_of_an_encode_is_a_clean_error(void** state) {
  (void)state;
  char out[4096];
  size_t n = 0;
  struct tmesh_agent_metadata m = agent_sample();
  struct tmesh_agent_metadata_ack ack = {
      .agent_id = "a", .is_idempotent = true, .connections_per_agent_max = 4};
  struct tmesh_client_metadata* c = calloc(1, sizeof *c);
  struct tmesh_client_metadata_ack client_ack = {.instance_id = "s", .capabilities = TMESH_CAP_EARLY_DATA};
  assert_non_null(c);
  c->agent_id_count = 1;
  c->listener_count = 1;
  ASSERT_EVERY_REFUSAL_IS_CLEAN(tmesh_agent_metadata_encode(&m, out, sizeof out, &n));
  ASSERT_EVERY_REFUSAL_IS_CLEAN(tmesh_agent_metadata_ack_encode(&ack, out, sizeof out, &n));
  ASSERT_EVERY_REFUSAL_IS_CLEAN(tmesh_client_metadata_encode(c, out, sizeof out, &n));
  ASSERT_EVERY_REFUSAL_IS_CLEAN(tmesh_client_metadata_ack_encode(&client_ack, out, sizeof out, &n));
  free(c);
}

static void a_refused_allocation_of_a_decode_is_a_clean_error(void** state) {
  (void)state;
  struct tmesh_agent_metadata m;
  fail_at = 1;
  count = 0;
  struct tmesh_status st = tmesh_agent_metadata_decode(&m, "{\"agent_id\":\"a\"}", 16);
  fail_at = 0;
  assert_int_equal(st.code, TMESH_E_NO_MEMORY);
  assert_null(m.storage);
  count = 0;
  st = tmesh_agent_metadata_decode(&m, "{\"agent_id\":\"a\"}", 16);
  assert_int_equal(st.code, TMESH_OK);
  assert_int_equal(count, 1); /* one allocation holds all texts */
  tmesh_agent_metadata_free(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_open_path_allocates_nothing),
      cmocka_unit_test(every_refused_allocation_of_an_encode_is_a_clean_error),
      cmocka_unit_test(a_refused_allocation_of_a_decode_is_a_clean_error),
  };
  return cmocka_run_group_tests(tests, install_hooks, NULL);
}
