/* The client's side of the upgrade: building the request, parsing the answer. */
#include "core/wire/ws_upgrade.h"

#include <llhttp.h>
#include <mbedtls/base64.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/cursor.h"

static const char* const error_texts[TMESH_WS_UPGRADE_ERROR_COUNT] = {
    [TMESH_WS_UPGRADE_OK] = "the upgrade succeeded",
    [TMESH_WS_UPGRADE_NOT_HTTP] = "the answer is not HTTP/1.1",
    [TMESH_WS_UPGRADE_TOO_LARGE] = "the answer's header is larger than 16 KiB",
    [TMESH_WS_UPGRADE_STATUS] =
        "the status is not 101 (a proxy in between must pass the Upgrade and Connection headers)",
    [TMESH_WS_UPGRADE_NO_UPGRADE] = "the answer has no 'Upgrade: websocket' header",
    [TMESH_WS_UPGRADE_NO_CONNECTION] = "the answer has no 'Connection: Upgrade' header",
    [TMESH_WS_UPGRADE_NO_ACCEPT] = "the answer has no 'Sec-WebSocket-Accept' header",
    [TMESH_WS_UPGRADE_BAD_ACCEPT] = "the answer's 'Sec-WebSocket-Accept' header does not match the key",
    [TMESH_WS_UPGRADE_BAD_PROTOCOL] = "the answer's 'Sec-WebSocket-Protocol' header was not offered",
    [TMESH_WS_UPGRADE_EXTENSION] = "the answer's 'Sec-WebSocket-Extensions' header was not offered",
};

const char* tmesh_ws_upgrade_error_text(unsigned error) {
  return error < TMESH_WS_UPGRADE_ERROR_COUNT ? error_texts[error] : "unknown";
}

static void key_text(const uint8_t key[TMESH_WS_KEY_BYTES], char out[TMESH_WS_KEY_TEXT_BYTES]) {
  size_t written = 0;
  TMESH_ASSERT(mbedtls_base64_encode((unsigned char*)out, TMESH_WS_KEY_TEXT_BYTES, &written, key,
                                     TMESH_WS_KEY_BYTES) == 0);
}

/* --- request ----------------------------------------------------------------- */

/* Visible ASCII only, not empty: for everything that is one word. */
static bool is_word(const char* s) {
  if (*s == '\0') return false;
  for (; *s != '\0'; s++) {
    if (*s <= ' ' || *s > '~') return false;
  }
  return true;
}

/* RFC 9110 section 5.6.2. */
static bool is_token(const char* s) {
  if (!is_word(s)) return false;
  return strpbrk(s, "\"(),/:;<=>?@[\\]{}") == NULL;
}

static bool is_field_value(const char* s) {
  for (; *s != '\0'; s++) {
    unsigned char c = (unsigned char)*s;
    if ((c < ' ' && c != '\t') || c == 0x7F) return false;
  }
  return true;
}

static bool request_valid(const struct tmesh_ws_request* r) {
  if (r->path[0] != '/' || !is_word(r->path) || strchr(r->path, '#') != NULL) return false;
  if (!is_word(r->host) || !is_word(r->origin)) return false;
  if (r->token != NULL && !is_word(r->token)) return false;
  for (size_t i = 0; i < r->protocol_count; i++) {
    if (!is_token(r->protocols[i])) return false;
  }
  for (size_t i = 0; i < r->extra_count; i++) {
    if (!is_token(r->extra[i].name) || !is_field_value(r->extra[i].value)) return false;
  }
  return true;
}

static void put(struct tmesh_writer* w, const char* s) {
  tmesh_writer_bytes(w, s, strlen(s));
}

static void put_field(struct tmesh_writer* w, const char* name, const char* value) {
  put(w, name);
  put(w, ": ");
  put(w, value);
  put(w, "\r\n");
}

struct tmesh_status tmesh_ws_request_build(const struct tmesh_ws_request* r, char* out, size_t cap_bytes,
                                           size_t* len_bytes) {
  struct tmesh_writer w =
      tmesh_writer_init(out, cap_bytes < TMESH_WS_UPGRADE_MAX_BYTES ? cap_bytes : TMESH_WS_UPGRADE_MAX_BYTES);
  char key[TMESH_WS_KEY_TEXT_BYTES];

  TMESH_ASSERT(r->protocol_count <= TMESH_WS_PROTOCOLS_MAX);
  *len_bytes = 0;
  if (!request_valid(r)) return tmesh_err_session(TMESH_E_INVALID);
  key_text(r->key, key);
  put(&w, "GET ");
  put(&w, r->path);
  put(&w, " HTTP/1.1\r\n");
  put_field(&w, "Host", r->host);
  put_field(&w, "Upgrade", "websocket");
  put_field(&w, "Connection", "Upgrade");
  put_field(&w, "Sec-WebSocket-Key", key);
  put_field(&w, "Origin", r->origin);
  put_field(&w, "Sec-WebSocket-Version", "13");
  for (size_t i = 0; i < r->protocol_count; i++) {
    put(&w, i == 0 ? "Sec-WebSocket-Protocol: " : ", ");
    put(&w, r->protocols[i]);
  }
  if (r->protocol_count > 0) put(&w, "\r\n");
  if (r->token != NULL) {
    put(&w, "Authorization: Bearer ");
    put(&w, r->token);
    put(&w, "\r\n");
  }
  for (size_t i = 0; i < r->extra_count; i++) put_field(&w, r->extra[i].name, r->extra[i].value);
  put(&w, "\r\n");
  if (w.failed) return tmesh_err_session(TMESH_E_TOO_LARGE);
  *len_bytes = (size_t)((char*)w.at - out);
  return tmesh_ok();
}

/* --- response ---------------------------------------------------------------- */

enum field {
  FIELD_OTHER,
  FIELD_UPGRADE,
  FIELD_CONNECTION,
  FIELD_ACCEPT,
  FIELD_PROTOCOL,
  FIELD_EXTENSIONS,
  FIELD_COUNT
};

static const char* const field_names[FIELD_COUNT] = {
    [FIELD_UPGRADE] = "upgrade",
    [FIELD_CONNECTION] = "connection",
    [FIELD_ACCEPT] = "sec-websocket-accept",
    [FIELD_PROTOCOL] = "sec-websocket-protocol",
    [FIELD_EXTENSIONS] = "sec-websocket-extensions",
};

/* Longer than the longest of field_names, so that a longer name cannot match one. */
#define NAME_MAX_BYTES 32u
/* The values looked at are a few words; a longer one is malformed for our purpose. */
#define VALUE_MAX_BYTES 1024u

struct tmesh_ws_response {
  llhttp_t parser;
  struct tmesh_status result; /* AGAIN while the answer is incomplete */
  enum tmesh_ws_upgrade_error error;
  size_t total_bytes; /* of all answers so far, interim ones included */
  int http_status;
  int protocol;
  const char* const* protocols;
  size_t protocol_count;
  char accept[TMESH_WS_ACCEPT_TEXT_BYTES];

  /* of the answer being parsed */
  bool has_upgrade;
  bool has_connection;
  bool has_accept;
  bool has_protocol;
  bool is_header_complete;
  enum tmesh_ws_upgrade_error fault; /* the first one its fields show */

  /* of the field being parsed */
  size_t name_bytes; /* NAME_MAX_BYTES: too long to be one of ours */
  size_t value_bytes;
  char name[NAME_MAX_BYTES];
  char value[VALUE_MAX_BYTES];
};

static int on_name(llhttp_t* p, const char* at, size_t n) {
  struct tmesh_ws_response* r = p->data;
  if (n > NAME_MAX_BYTES - r->name_bytes) n = NAME_MAX_BYTES - r->name_bytes;
  memcpy(r->name + r->name_bytes, at, n);
  r->name_bytes += n;
  return 0;
}

static int on_value(llhttp_t* p, const char* at, size_t n) {
  struct tmesh_ws_response* r = p->data;
  if (n > VALUE_MAX_BYTES - r->value_bytes) n = VALUE_MAX_BYTES - r->value_bytes;
  memcpy(r->value + r->value_bytes, at, n);
  r->value_bytes += n;
  return 0;
}

static void set_fault(struct tmesh_ws_response* r, enum tmesh_ws_upgrade_error fault) {
  if (r->fault == TMESH_WS_UPGRADE_OK) r->fault = fault;
}

static enum field name_to_field(const struct tmesh_ws_response* r) {
  for (int f = FIELD_OTHER + 1; f < FIELD_COUNT; f++) {
    /* A name has no comma and no blank, so as a list it is its one item. */
    if (r->name_bytes == strlen(field_names[f]) &&
        tmesh_http_list_has(r->name, r->name_bytes, field_names[f])) {
      return (enum field)f;
    }
  }
  return FIELD_OTHER;
}

static void take_accept(struct tmesh_ws_response* r, const char* item, size_t n, bool is_single) {
  const bool is_match = is_single && n == sizeof r->accept - 1 && memcmp(item, r->accept, n) == 0;
  if (r->has_accept || !is_match) set_fault(r, TMESH_WS_UPGRADE_BAD_ACCEPT);
  r->has_accept = true;
}

static void take_protocol(struct tmesh_ws_response* r, const char* item, size_t n, bool is_single) {
  int found = -1;
  for (size_t i = 0; i < r->protocol_count; i++) {
    if (strlen(r->protocols[i]) == n && memcmp(r->protocols[i], item, n) == 0) found = (int)i;
  }
  if (r->has_protocol || !is_single || found < 0) set_fault(r, TMESH_WS_UPGRADE_BAD_PROTOCOL);
  r->has_protocol = true;
  r->protocol = found;
}

/* A field is complete. */
static int on_field(llhttp_t* p) {
  struct tmesh_ws_response* r = p->data;
  struct tmesh_http_list list = tmesh_http_list_init(r->value, r->value_bytes);
  const char* item = r->value;
  const char* second;
  size_t n = 0;
  size_t second_bytes;
  const bool has_item = tmesh_http_list_next(&list, &item, &n);
  const bool is_single =
      has_item && r->value_bytes < VALUE_MAX_BYTES && !tmesh_http_list_next(&list, &second, &second_bytes);

  switch (name_to_field(r)) {
    case FIELD_UPGRADE:
      r->has_upgrade |= tmesh_http_list_has(r->value, r->value_bytes, "websocket");
      break;
    case FIELD_CONNECTION:
      r->has_connection |= tmesh_http_list_has(r->value, r->value_bytes, "upgrade");
      break;
    case FIELD_ACCEPT:
      take_accept(r, item, n, is_single);
      break;
    case FIELD_PROTOCOL:
      take_protocol(r, item, n, is_single);
      break;
    case FIELD_EXTENSIONS:
      if (has_item) set_fault(r, TMESH_WS_UPGRADE_EXTENSION);
      break;
    default:
      break;
  }
  r->name_bytes = 0;
  r->value_bytes = 0;
  return 0;
}

static int on_header_complete(llhttp_t* p) {
  struct tmesh_ws_response* r = p->data;
  r->is_header_complete = true;
  return 2; /* stop here, whatever the fields say about a body */
}

static const llhttp_settings_t settings = {
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_header_value_complete = on_field,
    .on_headers_complete = on_header_complete,
};

static void begin_answer(struct tmesh_ws_response* r) {
  llhttp_init(&r->parser, HTTP_RESPONSE, &settings);
  r->parser.data = r;
  r->has_upgrade = false;
  r->has_connection = false;
  r->has_accept = false;
  r->has_protocol = false;
  r->is_header_complete = false;
  r->fault = TMESH_WS_UPGRADE_OK;
  r->name_bytes = 0;
  r->value_bytes = 0;
  r->protocol = -1;
}

struct tmesh_ws_response* tmesh_ws_response_new(const uint8_t key[TMESH_WS_KEY_BYTES],
                                                const char* const* protocols, size_t protocol_count) {
  struct tmesh_ws_response* r = calloc(1, sizeof *r);
  char text[TMESH_WS_KEY_TEXT_BYTES];

  TMESH_ASSERT(protocol_count <= TMESH_WS_PROTOCOLS_MAX);
  if (r == NULL) return NULL;
  key_text(key, text);
  tmesh_ws_accept_key(text, sizeof text - 1, r->accept);
  r->protocols = protocols;
  r->protocol_count = protocol_count;
  r->result = tmesh_again();
  begin_answer(r);
  return r;
}

void tmesh_ws_response_free(struct tmesh_ws_response* r) {
  free(r);
}

static struct tmesh_status fail(struct tmesh_ws_response* r, enum tmesh_ws_upgrade_error error) {
  r->error = error;
  r->result = tmesh_err_session(error == TMESH_WS_UPGRADE_TOO_LARGE ? TMESH_E_TOO_LARGE : TMESH_E_HTTP);
  return r->result;
}

static struct tmesh_status judge(struct tmesh_ws_response* r) {
  r->http_status = llhttp_get_status_code(&r->parser);
  if (r->http_status != 101) return fail(r, TMESH_WS_UPGRADE_STATUS);
  if (llhttp_get_http_major(&r->parser) != 1 || llhttp_get_http_minor(&r->parser) != 1) {
    return fail(r, TMESH_WS_UPGRADE_NOT_HTTP);
  }
  if (!r->has_upgrade) return fail(r, TMESH_WS_UPGRADE_NO_UPGRADE);
  if (!r->has_connection) return fail(r, TMESH_WS_UPGRADE_NO_CONNECTION);
  if (!r->has_accept) return fail(r, TMESH_WS_UPGRADE_NO_ACCEPT);
  if (r->fault != TMESH_WS_UPGRADE_OK) return fail(r, r->fault);
  r->result = tmesh_ok();
  return r->result;
}

static bool is_interim(struct tmesh_ws_response* r) {
  const int status = llhttp_get_status_code(&r->parser);
  return status >= 100 && status <= 199 && status != 101;
}

struct tmesh_status tmesh_ws_response_feed(struct tmesh_ws_response* r, const uint8_t* data, size_t len_bytes,
                                           size_t* used_bytes) {
  size_t used = 0;

  *used_bytes = 0;
  while (r->result.code == TMESH_E_AGAIN && used < len_bytes) {
    const char* at = (const char*)data + used;
    const size_t room = TMESH_WS_UPGRADE_MAX_BYTES - r->total_bytes;
    const size_t n = len_bytes - used < room ? len_bytes - used : room;
    size_t taken = n;
    llhttp_errno_t err;

    if (room == 0) return fail(r, TMESH_WS_UPGRADE_TOO_LARGE);
    err = llhttp_execute(&r->parser, at, n);
    if (r->is_header_complete) {
      taken = (size_t)(llhttp_get_error_pos(&r->parser) - at);
    } else if (err != HPE_OK) {
      return fail(r, TMESH_WS_UPGRADE_NOT_HTTP);
    }
    used += taken;
    r->total_bytes += taken;
    if (!r->is_header_complete) continue;
    if (is_interim(r)) {
      begin_answer(r);
      continue;
    }
    *used_bytes = used;
    return judge(r);
  }
  *used_bytes = used;
  return r->result;
}

enum tmesh_ws_upgrade_error tmesh_ws_response_error(const struct tmesh_ws_response* r) {
  return r->error;
}
int tmesh_ws_response_http_status(const struct tmesh_ws_response* r) {
  return r->http_status;
}
int tmesh_ws_response_protocol(const struct tmesh_ws_response* r) {
  return r->protocol;
}
