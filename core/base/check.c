#include "core/base/check.h"

#include <stdio.h>
#include <stdlib.h>

void tmesh_assert_fail(const char* expression, const char* file, int line) {
  fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, expression);
  abort();
}
