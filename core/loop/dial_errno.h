/* The one place where a connect() errno becomes a status, and which of several failures
 * of one dial is told. Internal to core/loop. */
#ifndef TMESH_LOOP_DIAL_ERRNO_H
#define TMESH_LOOP_DIAL_ERRNO_H

#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* REFUSED, NET_UNREACHABLE, HOST_UNREACHABLE, TIMEOUT or IO; stream scope. `error` is a
 * positive errno. */
struct tmesh_status tmesh_dial_status_of_errno(int error);

/* The more telling of two failures: refused (the host answered) over unreachable (a
 * router answered) over timeout (nobody answered) over local trouble and DNS. */
enum tmesh_code tmesh_dial_worse(enum tmesh_code a, enum tmesh_code b);

#ifdef __cplusplus
}
#endif

#endif
