#include "core/proto/capability.h"

#include <string.h>

#include "core/base/check.h"

/* In bit order. */
static const char* const capability_names[TMESH_CAP_COUNT] = {
    "stream_open_result.v1",
    "stream_flow_control.v1",
    "stream_fair_writer.v1",
    "stream_icmp_echo.v1",
    "stream_early_data.v1",
    "stream_window_growth.v1",
    "tcp",
    "udp",
    "http",
};

struct subprotocol_rule {
  const char* name;
  uint32_t needs; /* capabilities that must be switched on */
};

static const struct subprotocol_rule subprotocols[TMESH_SUBPROTOCOL_COUNT] = {
    [TMESH_SUBPROTOCOL_NONE] = {"", 0},
    [TMESH_SUBPROTOCOL_V1] = {"tunnelmesh.v1", 0},
    [TMESH_SUBPROTOCOL_OPEN_RESULT] = {"tunnelmesh.v1.open-result", TMESH_CAP_OPEN_RESULT},
    [TMESH_SUBPROTOCOL_FLOW_CONTROL] = {"tunnelmesh.v1.open-result.flow-control",
                                        TMESH_CAP_OPEN_RESULT | TMESH_CAP_FLOW_CONTROL},
    [TMESH_SUBPROTOCOL_METADATA] = {"tunnelmesh.v1.open-result.flow-control.metadata",
                                    TMESH_CAP_OPEN_RESULT | TMESH_CAP_FLOW_CONTROL},
};

static bool is_name(const char* name, const char* text, size_t len_bytes) {
  return strlen(name) == len_bytes && memcmp(name, text, len_bytes) == 0;
}

const char* tmesh_capability_name(uint32_t bit) {
  for (size_t i = 0; i < TMESH_CAP_COUNT; i++) {
    if (bit == 1u << i) return capability_names[i];
  }
  return "unknown";
}

uint32_t tmesh_capability_from_name(const char* name, size_t len_bytes) {
  for (size_t i = 0; i < TMESH_CAP_COUNT; i++) {
    if (is_name(capability_names[i], name, len_bytes)) return 1u << i;
  }
  return 0;
}

size_t tmesh_capability_names(uint32_t set, const char* names[TMESH_CAP_COUNT]) {
  size_t count = 0;
  for (size_t i = 0; i < TMESH_CAP_COUNT; i++) {
    if ((set & 1u << i) != 0) names[count++] = capability_names[i];
  }
  return count;
}

const char* tmesh_subprotocol_name(unsigned subprotocol) {
  return subprotocol < TMESH_SUBPROTOCOL_COUNT ? subprotocols[subprotocol].name : "";
}

enum tmesh_subprotocol tmesh_subprotocol_from_name(const char* name, size_t len_bytes) {
  for (unsigned i = TMESH_SUBPROTOCOL_V1; i < TMESH_SUBPROTOCOL_COUNT; i++) {
    if (is_name(subprotocols[i].name, name, len_bytes)) return (enum tmesh_subprotocol)i;
  }
  return TMESH_SUBPROTOCOL_NONE;
}

static bool is_allowed(unsigned subprotocol, uint32_t enabled) {
  return (subprotocols[subprotocol].needs & ~enabled) == 0;
}

size_t tmesh_subprotocol_offers(uint32_t enabled, enum tmesh_subprotocol offers[TMESH_SUBPROTOCOL_COUNT]) {
  size_t count = 0;
  for (unsigned i = TMESH_SUBPROTOCOL_COUNT - 1; i >= TMESH_SUBPROTOCOL_V1; i--) {
    if (is_allowed(i, enabled)) offers[count++] = (enum tmesh_subprotocol)i;
  }
  return count;
}

size_t tmesh_subprotocol_offer_text(uint32_t enabled, char out[TMESH_SUBPROTOCOL_OFFER_SIZE]) {
  enum tmesh_subprotocol offers[TMESH_SUBPROTOCOL_COUNT];
  size_t count = tmesh_subprotocol_offers(enabled, offers);
  size_t len = 0;
  for (size_t i = 0; i < count; i++) {
    const char* name = subprotocols[offers[i]].name;
    size_t n = strlen(name);
    TMESH_ASSERT(len + 2 + n < TMESH_SUBPROTOCOL_OFFER_SIZE);
    if (i > 0) {
      out[len++] = ',';
      out[len++] = ' ';
    }
    memcpy(out + len, name, n);
    len += n;
  }
  out[len] = '\0';
  return len;
}

static bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

uint32_t tmesh_subprotocol_offered(uint32_t offered, const char* line, size_t len_bytes) {
  size_t at = 0;
  while (at < len_bytes) {
    size_t end = at;
    while (end < len_bytes && line[end] != ',') end++;
    size_t from = at;
    size_t to = end;
    while (from < to && is_blank(line[from])) from++;
    while (to > from && is_blank(line[to - 1])) to--;
    enum tmesh_subprotocol s = tmesh_subprotocol_from_name(line + from, to - from);
    if (s != TMESH_SUBPROTOCOL_NONE) offered |= 1u << s;
    at = end + 1;
  }
  return offered;
}

enum tmesh_subprotocol tmesh_subprotocol_choose(uint32_t offered, uint32_t enabled) {
  for (unsigned i = TMESH_SUBPROTOCOL_COUNT - 1; i >= TMESH_SUBPROTOCOL_V1; i--) {
    if ((offered & 1u << i) != 0 && is_allowed(i, enabled)) return (enum tmesh_subprotocol)i;
  }
  return TMESH_SUBPROTOCOL_NONE;
}

bool tmesh_subprotocol_was_offered(enum tmesh_subprotocol selected, uint32_t enabled) {
  return selected > TMESH_SUBPROTOCOL_NONE && selected < TMESH_SUBPROTOCOL_COUNT &&
         is_allowed(selected, enabled);
}
