#include <string.h>

#include "core/proto/metadata.h"

static char lower(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static bool is_name_char(char c) {
  char l = lower(c);
  return (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

bool tmesh_metadata_name_is_valid(const char* name) {
  size_t n = 0;
  while (n <= TMESH_METADATA_NAME_MAX_BYTES && is_name_char(name[n])) n++;
  return n > 0 && n <= TMESH_METADATA_NAME_MAX_BYTES && name[n] == '\0';
}

static bool contains(const char* text, const char* word) {
  for (; *text != '\0'; text++) {
    size_t i = 0;
    while (word[i] != '\0' && lower(text[i]) == word[i]) i++;
    if (word[i] == '\0') return true;
  }
  return false;
}

bool tmesh_metadata_name_is_sensitive(const char* name) {
  static const char* const words[] = {"password", "token", "secret", "private_key", "private-key", "dsn"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if (contains(name, words[i])) return true;
  }
  return false;
}

/* Printable, within the length, and not only blanks unless it may be empty. */
static bool is_id(const char* id, bool may_be_empty) {
  bool has_ink = false;
  size_t n = 0;
  for (; id[n] != '\0'; n++) {
    unsigned char c = (unsigned char)id[n];
    if (c < 0x20 || c == 0x7F) return false;
    has_ink = has_ink || c != ' ';
  }
  return n <= TMESH_METADATA_ID_MAX_BYTES && (has_ink || (may_be_empty && n == 0));
}

static bool refuse(struct tmesh_metadata_error* why, const char* name, const char* code,
                   const char* message) {
  why->name = name;
  why->code = code;
  why->message = message;
  return false;
}

static const char invalid[] = "invalid_metadata";

static bool check_item(const struct tmesh_metadata_item* item, struct tmesh_metadata_error* why) {
  if (!tmesh_metadata_name_is_valid(item->name)) {
    return refuse(why, "items", invalid, "item name is not allowed");
  }
  if (tmesh_metadata_name_is_sensitive(item->name)) {
    return refuse(why, "items", invalid, "item name speaks of a secret");
  }
  if (strcmp(item->source, "file") != 0 && strcmp(item->source, "env") != 0) {
    return refuse(why, "items", invalid, "item source is not file or env");
  }
  if (strlen(item->value) > TMESH_METADATA_VALUE_MAX_BYTES) {
    return refuse(why, "items", invalid, "item value is too long");
  }
  return true;
}

bool tmesh_agent_metadata_check(const struct tmesh_agent_metadata* m, struct tmesh_metadata_error* why) {
  if (!is_id(m->agent_id, false))
    return refuse(why, "agent_id", invalid, "agent_id is missing or not allowed");
  if (!is_id(m->node_id, false)) return refuse(why, "node_id", invalid, "node_id is missing or not allowed");
  if (!is_id(m->instance_id, true)) return refuse(why, "instance_id", invalid, "instance_id is not allowed");
  if (!is_id(m->connection_id, true)) {
    return refuse(why, "connection_id", invalid, "connection_id is not allowed");
  }
  if (m->epoch <= 0) return refuse(why, "epoch", invalid, "epoch must be positive");
  if (m->revision == 0) return refuse(why, "revision", "invalid_revision", "revision must be positive");
  for (size_t i = 0; i < m->item_count; i++) {
    if (!check_item(&m->items[i], why)) return false;
  }
  return true;
}

bool tmesh_client_metadata_check(const struct tmesh_client_metadata* m, struct tmesh_metadata_error* why) {
  if (!is_id(m->instance_id, false)) {
    return refuse(why, "client_metadata", "invalid_payload", "instance_id is missing or not allowed");
  }
  return true;
}
