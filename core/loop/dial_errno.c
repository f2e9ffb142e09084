#include "core/loop/dial_errno.h"

#include <errno.h>
#include <stddef.h>

/* POLICY is not in this table: "forbidden" always means a rule of the agent. A packet
 * filter's refusal (EPERM here, EACCES from an ICMPv6 "prohibited") is a host that
 * cannot be reached, as its IPv4 form (EHOSTUNREACH) already is. */
static const struct {
  int error;
  enum tmesh_code code;
} errno_table[] = {
    {ECONNREFUSED, TMESH_E_REFUSED},
    /* Accepted and dropped before we looked: nobody there wants this connection, either. */
    {ECONNRESET, TMESH_E_REFUSED},
    {ECONNABORTED, TMESH_E_REFUSED},
    {EPIPE, TMESH_E_REFUSED},
    {ENETUNREACH, TMESH_E_NET_UNREACHABLE},
    {ENETDOWN, TMESH_E_NET_UNREACHABLE},
    {EADDRNOTAVAIL, TMESH_E_NET_UNREACHABLE}, /* no local address to start from */
    {EAFNOSUPPORT, TMESH_E_NET_UNREACHABLE},  /* a kernel without IPv6 */
    {EINVAL, TMESH_E_NET_UNREACHABLE},        /* blackhole route, link-local without interface */
    {EHOSTUNREACH, TMESH_E_HOST_UNREACHABLE},
    {EHOSTDOWN, TMESH_E_HOST_UNREACHABLE},
    {ENOPROTOOPT, TMESH_E_HOST_UNREACHABLE}, /* ICMP protocol unreachable */
    {EACCES, TMESH_E_HOST_UNREACHABLE},
    {EPERM, TMESH_E_HOST_UNREACHABLE},
    {ETIMEDOUT, TMESH_E_TIMEOUT},
};

struct tmesh_status tmesh_dial_status_of_errno(int error) {
  for (size_t i = 0; i < sizeof errno_table / sizeof errno_table[0]; i++) {
    if (errno_table[i].error == error) return tmesh_err_stream(errno_table[i].code);
  }
  return tmesh_err_stream(TMESH_E_IO);
}

static int rank(enum tmesh_code code) {
  switch (code) {
    case TMESH_E_REFUSED:
      return 6;
    case TMESH_E_HOST_UNREACHABLE:
      return 5;
    case TMESH_E_NET_UNREACHABLE:
      return 4;
    case TMESH_E_TIMEOUT:
      return 3;
    case TMESH_E_IO:
      return 2;
    case TMESH_OK:
      return 0;
    default:
      return 1;
  }
}

enum tmesh_code tmesh_dial_worse(enum tmesh_code a, enum tmesh_code b) {
  return rank(b) > rank(a) ? b : a;
}
