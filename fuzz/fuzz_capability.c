/* Capability names and sub-protocol lines: what an unknown peer may write into its
 * handshake. The reader of comma lists is compared with a second one, written the slow
 * way, and what is chosen was offered and is switched on.
 *
 * Input: one byte of switches, then header lines separated by line feeds. */
#include <string.h>

#include "core/proto/capability.h"
#include "fuzz/fuzz.h"

static uint32_t enabled_by(uint8_t switches) {
  return tmesh_capability_enabled((switches & 1) != 0, (switches & 2) != 0, (switches & 4) != 0,
                                  (switches & 8) != 0, (switches & 16) != 0);
}

/* Whether one comma list holds name as a whole item: every position is tried. */
static bool list_has(const char* line, size_t len, const char* name) {
  size_t n = strlen(name);
  for (size_t at = 0; at + n <= len; at++) {
    if (memcmp(line + at, name, n) != 0) continue;
    size_t before = at;
    size_t behind = at + n;
    while (before > 0 && (line[before - 1] == ' ' || line[before - 1] == '\t')) before--;
    while (behind < len && (line[behind] == ' ' || line[behind] == '\t')) behind++;
    if ((before == 0 || line[before - 1] == ',') && (behind == len || line[behind] == ',')) return true;
  }
  return false;
}

static uint32_t model_offered(const char* line, size_t len) {
  uint32_t offered = 0;
  for (unsigned i = TMESH_SUBPROTOCOL_V1; i < TMESH_SUBPROTOCOL_COUNT; i++) {
    if (list_has(line, len, tmesh_subprotocol_name(i))) offered |= 1u << i;
  }
  return offered;
}

static void check_choice(uint32_t offered, uint32_t enabled) {
  enum tmesh_subprotocol s = tmesh_subprotocol_choose(offered, enabled);
  FUZZ_CHECK(s < TMESH_SUBPROTOCOL_COUNT);
  if (s != TMESH_SUBPROTOCOL_NONE) {
    FUZZ_CHECK((offered & 1u << s) != 0);
    FUZZ_CHECK(tmesh_subprotocol_was_offered(s, enabled));
  }
  FUZZ_CHECK(!tmesh_subprotocol_is_strict(s) || (enabled & TMESH_CAP_OPEN_RESULT) != 0);
  FUZZ_CHECK(!tmesh_subprotocol_has_windows(s) || (enabled & TMESH_CAP_FLOW_CONTROL) != 0);
  /* Nothing better was offered and allowed. */
  for (unsigned better = s + 1; better < TMESH_SUBPROTOCOL_COUNT; better++) {
    FUZZ_CHECK((offered & 1u << better) == 0 ||
               !tmesh_subprotocol_was_offered((enum tmesh_subprotocol)better, enabled));
  }
}

static void check_name(const char* text, size_t len) {
  uint32_t bit = tmesh_capability_from_name(text, len);
  if (bit != 0) {
    const char* name = tmesh_capability_name(bit);
    FUZZ_CHECK(strlen(name) == len && memcmp(name, text, len) == 0);
  }
  enum tmesh_subprotocol s = tmesh_subprotocol_from_name(text, len);
  if (s != TMESH_SUBPROTOCOL_NONE) {
    const char* name = tmesh_subprotocol_name(s);
    FUZZ_CHECK(strlen(name) == len && memcmp(name, text, len) == 0);
  }
}

/* What we offer is what we read, and it is what we would choose from. */
static void check_our_offer(uint32_t enabled) {
  char text[TMESH_SUBPROTOCOL_OFFER_SIZE];
  enum tmesh_subprotocol offers[TMESH_SUBPROTOCOL_COUNT];
  size_t len = tmesh_subprotocol_offer_text(enabled, text);
  uint32_t offered = tmesh_subprotocol_offered(0, text, len);
  size_t count = tmesh_subprotocol_offers(enabled, offers);
  uint32_t listed = 0;
  for (size_t i = 0; i < count; i++) listed |= 1u << offers[i];
  FUZZ_CHECK(offered == listed && strlen(text) == len);
  FUZZ_CHECK(tmesh_subprotocol_choose(offered, enabled) == offers[0]);
  const char* names[TMESH_CAP_COUNT];
  uint32_t named = 0;
  size_t n = tmesh_capability_names(enabled, names);
  for (size_t i = 0; i < n; i++) named |= tmesh_capability_from_name(names[i], strlen(names[i]));
  FUZZ_CHECK(named == enabled);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 4096) return 0;
  uint32_t enabled = enabled_by(data[0]);
  const char* at = (const char*)data + 1;
  const char* end = (const char*)data + size;
  uint32_t offered = 0;
  uint32_t wanted = 0;
  while (at <= end) {
    const char* stop = at;
    while (stop < end && *stop != '\n') stop++;
    size_t len = (size_t)(stop - at);
    offered = tmesh_subprotocol_offered(offered, at, len);
    wanted |= model_offered(at, len);
    FUZZ_CHECK(offered == wanted);
    check_name(at, len);
    at = stop + 1;
  }
  check_choice(offered, enabled);
  check_our_offer(enabled);
  return 0;
}
