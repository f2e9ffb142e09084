/* entry socket -> splice -> link ==> link -> splice -> target socket: the data path of a
 * client and an agent in one process. */
#ifndef TMESH_TESTS_PATH_SUPPORT_H
#define TMESH_TESTS_PATH_SUPPORT_H

#include "core/loop/tcp.h"
#include "tests/core/loop/flow_support.h"
#include "tests/core/loop/link_support.h"

struct tls_configs;

/* One half: a socket spliced with a stream; `peer` is the plain socket outside. */
struct half {
  struct tmesh_tcp tcp;
  struct tmesh_stream* stream;
  struct tmesh_splice splice;
  bool is_spliced, is_tcp_closed;
  unsigned done_count;
  struct tmesh_status why;
  int broken, peer;
};

struct test_path {
  struct test_link a, b; /* a opens */
  struct half entry, target;
};
extern struct test_path path;

/* Opens both links on the two ends (over TLS when given), and one stream with a socket
 * at each side. */
void path_open(int fds[2], struct tls_configs* tls);
/* Both sockets closed regularly, each splice done once. */
void path_expect_regular_end(void);
void path_close_peers(void);
void path_close_links(void);

#endif
