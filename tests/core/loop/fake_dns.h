/* A name server on 127.0.0.1 that does what a test tells it, on the test's own loop. */
#ifndef TMESH_TESTS_FAKE_DNS_H
#define TMESH_TESTS_FAKE_DNS_H

#include "core/loop/loop.h"

#define FAKE_DNS_RULES_MAX 32
#define FAKE_DNS_A 1
#define FAKE_DNS_AAAA 28

enum fake_dns_act { FAKE_DNS_ANSWER, FAKE_DNS_NXDOMAIN, FAKE_DNS_SERVFAIL, FAKE_DNS_SILENT };

struct fake_dns_rule {
  const char* name; /* exact, or a prefix that ends in '*' */
  int type;
  enum fake_dns_act act;
  const char* addresses; /* "127.0.0.1 127.0.0.2"; "" = NODATA */
  unsigned delay_ms;
};

struct fake_dns {
  uv_udp_t udp;
  struct tmesh_loop* loop;
  struct fake_dns_rule rules[FAKE_DNS_RULES_MAX];
  unsigned rule_count;
  unsigned a_count, aaaa_count; /* questions received */
  uint16_t port;
  char servers[32]; /* for tmesh_resolver_new() */
  uint8_t buffer[2048];
};

/* ip "127.0.0.1"; port 0 = any. Unknown names get NXDOMAIN. */
void fake_dns_open(struct fake_dns* dns, struct tmesh_loop* loop, const char* ip, uint16_t port);
void fake_dns_rule(struct fake_dns* dns, const char* name, int type, enum fake_dns_act act,
                   const char* addresses, unsigned delay_ms);
void fake_dns_close(struct fake_dns* dns);

/* Runs the loop until *flag, at most 20 s; returns *flag. */
bool run_until(struct tmesh_loop* loop, const bool* flag);
/* Runs the loop for about ms milliseconds of real events. */
void run_for(struct tmesh_loop* loop, unsigned ms);
/* Handles of the loop that are not closing. */
unsigned handles_of(struct tmesh_loop* loop);

#endif
