/* core/loop/resolver_name: which names are asked, and the hosts file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/loop/resolver_name.h"

static void names_that_are_no_host_names_are_refused(void** state) {
  (void)state;
  char long_label[80], long_name[300];
  memset(long_label, 'a', 64);
  strcpy(long_label + 64, ".test");
  for (size_t i = 0; i < sizeof long_name; i++) long_name[i] = i % 2 ? '.' : 'a';
  long_name[255] = '\0'; /* "a.a...a." is 254 bytes before its last dot */
  const char* refused[] = {"",           ".",           "a..b",         ".a",        "a b",        "a/b",
                           "a\x01",      "\xC3\xA4.de", "fe80::1%eth0", "[::1]",     "a:80",       "1.2.3.4",
                           "1.2.3.4.",   "127.1",       "2130706433",   "1.2.3.4.5", "0x7f000001", "0X7f.1",
                           "0x7f.0.0.1", "0x",          "0177.0.0.1",   long_label,  long_name};
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
    if (tmesh_name_classify(refused[i]) != TMESH_NAME_REFUSED) fail_msg("accepted: %s", refused[i]);
  }
  const char* accepted[] = {"a", "a.", "A-b_c.Example", "0x.example", "1.2.3.4.test", "4.in-addr.arpa",
                            "7", NULL};
  for (size_t i = 0; accepted[i]; i++) {
    enum tmesh_name_kind want = strcmp(accepted[i], "7") == 0 ? TMESH_NAME_REFUSED : TMESH_NAME_QUERY;
    assert_int_equal(tmesh_name_classify(accepted[i]), want);
  }
  long_name[253] = '\0';
  long_name[252] = 'a';
  assert_int_equal(tmesh_name_classify(long_name), TMESH_NAME_QUERY);
}

static void localhost_and_what_lies_under_it(void** state) {
  (void)state;
  const char* local[] = {"localhost", "LOCALHOST.", "a.b.localhost"};
  for (size_t i = 0; i < 3; i++) assert_int_equal(tmesh_name_classify(local[i]), TMESH_NAME_LOCALHOST);
  const char* others[] = {"notlocalhost", "localhost.test", "ocalhost"};
  for (size_t i = 0; i < 3; i++) assert_int_equal(tmesh_name_classify(others[i]), TMESH_NAME_QUERY);
}

static void lookup(const char* text, const char* name, struct tmesh_addresses* v4, struct tmesh_addresses* v6,
                   bool want) {
  char path[] = "/tmp/tmesh-hosts-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
  close(fd);
  v4->count = v6->count = 0;
  assert_int_equal(tmesh_hosts_lookup(path, name, v4, v6), want);
  unlink(path);
}

static void hosts_lines(void** state) {
  (void)state;
  struct tmesh_addresses v4, v6;
  lookup("1.2.3.4 a b\n::5\tB.\n# 1.1.1.1 b\n", "b.", &v4, &v6, true);
  assert_int_equal(v4.count, 1);
  assert_int_equal(v6.count, 1);
  assert_memory_equal(v4.items[0].bytes, ((const uint8_t[]){1, 2, 3, 4}), 4);
  lookup("1.2.3 a\n1.2.3.4\n", "a", &v4, &v6, false);
  lookup("1.2.3.4 ab\n", "a", &v4, &v6, false);
  assert_false(tmesh_hosts_lookup("/nonexistent/hosts", "a", &v4, &v6));
  assert_false(tmesh_hosts_lookup("/", "a", &v4, &v6));
}

static void more_than_16_hosts_lines_are_dropped(void** state) {
  (void)state;
  char text[1024] = "";
  for (int i = 1; i <= 20; i++) snprintf(text + strlen(text), sizeof text - strlen(text), "10.0.0.%d a\n", i);
  struct tmesh_addresses v4, v6;
  lookup(text, "a", &v4, &v6, true);
  assert_int_equal(v4.count, TMESH_RESOLVE_ADDRESSES_MAX);
}

static void the_tail_of_an_overlong_line_is_no_line(void** state) {
  (void)state;
  char text[4200];
  memset(text, ' ', sizeof text);
  memcpy(text, "10.0.0.1", 8);
  snprintf(text + 4095, sizeof text - 4095, "10.6.6.6 fake\n10.0.0.2 real\n");
  struct tmesh_addresses v4, v6;
  lookup(text, "fake", &v4, &v6, false);
  lookup(text, "real", &v4, &v6, true);
  assert_int_equal(v4.count, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_that_are_no_host_names_are_refused),
      cmocka_unit_test(localhost_and_what_lies_under_it),
      cmocka_unit_test(hosts_lines),
      cmocka_unit_test(more_than_16_hosts_lines_are_dropped),
      cmocka_unit_test(the_tail_of_an_overlong_line_is_no_line),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
