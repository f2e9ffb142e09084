#include "core/loop/resolver_name.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

/* Block lists kept in hosts files have a few MB; a pseudo-file must not hold the loop. */
#define HOSTS_FILE_BYTES_MAX (8u * 1024u * 1024u)
/* hosts(5) lines are short; the rest of a longer one is skipped. */
#define HOSTS_LINE_BYTES_MAX 4096u

/* Not <ctype.h>: the locale must not decide what a host name is. */
static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
static bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
static bool is_name_byte(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
}

static size_t length_without_dot(const char* name) {
  size_t len = strnlen(name, TMESH_NAME_BYTES_MAX + 2);
  return len > 0 && name[len - 1] == '.' ? len - 1 : len;
}

static bool is_number(const char* label, size_t len) {
  bool is_hex_form = len >= 2 && label[0] == '0' && (label[1] == 'x' || label[1] == 'X');
  for (size_t i = is_hex_form ? 2 : 0; i < len; i++) {
    if (is_hex_form ? !is_hex(label[i]) : !is_digit(label[i])) return false;
  }
  return true;
}

static bool is_localhost(const char* name, size_t len) {
  static const char word[] = "localhost";
  const size_t word_len = sizeof word - 1;
  if (len < word_len || strncasecmp(name + len - word_len, word, word_len) != 0) return false;
  return len == word_len || name[len - word_len - 1] == '.';
}

enum tmesh_name_kind tmesh_name_classify(const char* name) {
  size_t len = length_without_dot(name);
  if (len == 0 || len > TMESH_NAME_BYTES_MAX) return TMESH_NAME_REFUSED;
  bool is_all_numbers = true;
  size_t begin = 0;
  for (size_t i = 0; i <= len; i++) {
    if (i < len && name[i] != '.') {
      if (!is_name_byte(name[i])) return TMESH_NAME_REFUSED;
      continue;
    }
    size_t label_len = i - begin;
    if (label_len == 0 || label_len > TMESH_NAME_LABEL_BYTES_MAX) return TMESH_NAME_REFUSED;
    is_all_numbers = is_all_numbers && is_number(name + begin, label_len);
    begin = i + 1;
  }
  if (is_all_numbers) return TMESH_NAME_REFUSED;
  return is_localhost(name, len) ? TMESH_NAME_LOCALHOST : TMESH_NAME_QUERY;
}

void tmesh_addresses_add(struct tmesh_addresses* list, int family, const void* bytes) {
  if (list->count == TMESH_RESOLVE_ADDRESSES_MAX) return;
  struct tmesh_address* a = &list->items[list->count++];
  memset(a, 0, sizeof *a);
  a->family = (uint8_t)family;
  memcpy(a->bytes, bytes, family == AF_INET ? 4 : 16);
}

static bool line_names(char* rest, const char* name, size_t len) {
  char* save = NULL;
  for (char* word = strtok_r(rest, " \t\r\n", &save); word; word = strtok_r(NULL, " \t\r\n", &save)) {
    if (length_without_dot(word) == len && strncasecmp(word, name, len) == 0) return true;
  }
  return false;
}

static bool read_line(char* line, const char* name, size_t len, struct tmesh_addresses* v4,
                      struct tmesh_addresses* v6) {
  line[strcspn(line, "#")] = '\0';
  char* rest = NULL;
  char* address = strtok_r(line, " \t\r\n", &rest);
  uint8_t bytes[16];
  if (!address) return false;
  int family = strchr(address, ':') ? AF_INET6 : AF_INET;
  if (inet_pton(family, address, bytes) != 1 || !line_names(rest, name, len)) return false;
  tmesh_addresses_add(family == AF_INET ? v4 : v6, family, bytes);
  return true;
}

bool tmesh_hosts_lookup(const char* path, const char* name, struct tmesh_addresses* v4,
                        struct tmesh_addresses* v6) {
  FILE* file = fopen(path, "re");
  if (!file) return false;
  size_t len = length_without_dot(name);
  bool is_found = false;
  bool is_line_begin = true;
  size_t done_bytes = 0;
  char line[HOSTS_LINE_BYTES_MAX];
  while (done_bytes < HOSTS_FILE_BYTES_MAX && fgets(line, sizeof line, file)) {
    size_t line_len = strlen(line);
    bool is_line_end = line_len > 0 && line[line_len - 1] == '\n';
    done_bytes += line_len + 1;
    if (is_line_begin && read_line(line, name, len, v4, v6)) is_found = true;
    is_line_begin = is_line_end;
  }
  fclose(file);
  return is_found;
}
