#include "tests/core/loop/fake_dns.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/check.h"

struct reply {
  struct fake_dns* dns;
  uv_timer_t timer;
  struct sockaddr_storage to;
  size_t len;
  uint8_t data[2048];
};

static void on_alloc(uv_handle_t* h, size_t n, uv_buf_t* buf) {
  (void)n;
  struct fake_dns* dns = h->data;
  *buf = uv_buf_init((char*)dns->buffer, sizeof dns->buffer);
}

static void send_now(struct reply* r) {
  uv_buf_t buf = uv_buf_init((char*)r->data, (unsigned)r->len);
  (void)uv_udp_try_send(&r->dns->udp, &buf, 1, (struct sockaddr*)&r->to);
}

static void on_reply_closed(uv_handle_t* h) {
  free(h->data);
}

static void on_reply_due(uv_timer_t* t) {
  send_now(t->data);
  uv_close((uv_handle_t*)t, on_reply_closed);
}

static const struct fake_dns_rule* find(const struct fake_dns* dns, const char* name, int type) {
  for (unsigned i = 0; i < dns->rule_count; i++) {
    const struct fake_dns_rule* r = &dns->rules[i];
    size_t len = strlen(r->name);
    bool is_prefix = len > 0 && r->name[len - 1] == '*';
    if (r->type != type) continue;
    if (is_prefix ? strncasecmp(name, r->name, len - 1) == 0 : strcasecmp(name, r->name) == 0) return r;
  }
  return NULL;
}

static size_t put_answers(uint8_t* out, const char* addresses, int type, unsigned* count) {
  char copy[1024];
  snprintf(copy, sizeof copy, "%s", addresses);
  char* save = NULL;
  size_t n = 0;
  for (char* a = strtok_r(copy, " ", &save); a; a = strtok_r(NULL, " ", &save)) {
    size_t size = type == FAKE_DNS_A ? 4 : 16;
    const uint8_t head[] = {0xC0, 12, 0, (uint8_t)type, 0, 1, 0, 0, 0, 60, 0, (uint8_t)size};
    memcpy(out + n, head, sizeof head);
    TMESH_ASSERT(inet_pton(type == FAKE_DNS_A ? AF_INET : AF_INET6, a, out + n + sizeof head) == 1);
    n += sizeof head + size;
    ++*count;
  }
  return n;
}

static void on_recv(uv_udp_t* udp, ssize_t n, const uv_buf_t* buf, const struct sockaddr* from,
                    unsigned flags) {
  struct fake_dns* dns = udp->data;
  (void)flags;
  if (n < 17 || !from) return;
  const uint8_t* q = (const uint8_t*)buf->base;
  char name[256] = "";
  size_t at = 12, out = 0;
  while (q[at] != 0) {
    if (out) name[out++] = '.';
    memcpy(name + out, q + at + 1, q[at]);
    out += q[at];
    at += q[at] + 1u;
  }
  name[out] = '\0';
  int type = q[at + 1] << 8 | q[at + 2];
  size_t question_end = at + 5;
  if (type == FAKE_DNS_A) dns->a_count++;
  if (type == FAKE_DNS_AAAA) dns->aaaa_count++;
  const struct fake_dns_rule* rule = find(dns, name, type);
  enum fake_dns_act act = rule ? rule->act : FAKE_DNS_NXDOMAIN;
  if (act == FAKE_DNS_SILENT) return;

  /* Without a delay nothing is allocated: tests of refused allocations use it, too. */
  struct reply at_once = {0};
  const bool is_late = rule && rule->delay_ms > 0;
  struct reply* r = is_late ? calloc(1, sizeof *r) : &at_once;
  TMESH_ASSERT(r != NULL);
  r->dns = dns;
  memcpy(&r->to, from, from->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
  memcpy(r->data, q, question_end);
  r->data[2] = 0x81; /* response, recursion desired and available */
  r->data[3] = (uint8_t)(0x80 | (act == FAKE_DNS_NXDOMAIN ? 3 : act == FAKE_DNS_SERVFAIL ? 2 : 0));
  memset(r->data + 6, 0, 6);
  unsigned count = 0;
  r->len = question_end;
  if (act == FAKE_DNS_ANSWER) r->len += put_answers(r->data + question_end, rule->addresses, type, &count);
  r->data[7] = (uint8_t)count;
  if (!is_late) {
    send_now(r);
    return;
  }
  uv_timer_init(&dns->loop->uv, &r->timer);
  r->timer.data = r;
  uv_timer_start(&r->timer, on_reply_due, rule->delay_ms, 0);
}

void fake_dns_open(struct fake_dns* dns, struct tmesh_loop* loop, const char* ip, uint16_t port) {
  memset(dns, 0, sizeof *dns);
  dns->loop = loop;
  struct sockaddr_in addr;
  TMESH_ASSERT(uv_ip4_addr(ip, port, &addr) == 0);
  TMESH_ASSERT(uv_udp_init(&loop->uv, &dns->udp) == 0);
  TMESH_ASSERT(uv_udp_bind(&dns->udp, (struct sockaddr*)&addr, 0) == 0);
  int len = sizeof addr;
  TMESH_ASSERT(uv_udp_getsockname(&dns->udp, (struct sockaddr*)&addr, &len) == 0);
  dns->port = ntohs(addr.sin_port);
  dns->udp.data = dns;
  snprintf(dns->servers, sizeof dns->servers, "%s:%u", ip, dns->port);
  int receive_bytes = 4 << 20;
  (void)uv_recv_buffer_size((uv_handle_t*)&dns->udp, &receive_bytes);
  TMESH_ASSERT(uv_udp_recv_start(&dns->udp, on_alloc, on_recv) == 0);
  uv_unref((uv_handle_t*)&dns->udp);
}

void fake_dns_rule(struct fake_dns* dns, const char* name, int type, enum fake_dns_act act,
                   const char* addresses, unsigned delay_ms) {
  TMESH_ASSERT(dns->rule_count < FAKE_DNS_RULES_MAX);
  dns->rules[dns->rule_count++] = (struct fake_dns_rule){name, type, act, addresses, delay_ms};
}

static void close_delayed(uv_handle_t* h, void* arg) {
  if (h->type == UV_TIMER && !uv_is_closing(h) && ((uv_timer_t*)h)->timer_cb == on_reply_due) {
    if (((struct reply*)h->data)->dns == arg) uv_close(h, on_reply_closed);
  }
}

void fake_dns_close(struct fake_dns* dns) {
  uv_walk(&dns->loop->uv, close_delayed, dns);
  uv_close((uv_handle_t*)&dns->udp, NULL);
}

static void on_guard(uv_timer_t* t) {
  *(bool*)t->data = true;
}

static bool run_guarded(struct tmesh_loop* loop, const bool* flag, unsigned ms) {
  bool is_over = false;
  uv_timer_t guard;
  uv_timer_init(&loop->uv, &guard);
  guard.data = &is_over;
  uv_timer_start(&guard, on_guard, ms, 0);
  while (!*flag && !is_over) uv_run(&loop->uv, UV_RUN_ONCE);
  uv_close((uv_handle_t*)&guard, NULL);
  uv_run(&loop->uv, UV_RUN_NOWAIT); /* the guard lives on this stack: one turn ends it */
  return *flag;
}

bool run_until(struct tmesh_loop* loop, const bool* flag) {
  return run_guarded(loop, flag, 20000);
}

void run_for(struct tmesh_loop* loop, unsigned ms) {
  const bool never = false;
  (void)run_guarded(loop, &never, ms);
}

static void count_open(uv_handle_t* h, void* arg) {
  if (!uv_is_closing(h)) ++*(unsigned*)arg;
}

unsigned handles_of(struct tmesh_loop* loop) {
  unsigned count = 0;
  uv_walk(&loop->uv, count_open, &count);
  return count;
}
