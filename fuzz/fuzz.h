/* What a fuzz target needs: the entry point's prototype, and a check that ends the
 * process. A target asserts properties; "did not crash" alone finds little. */
#ifndef TMESH_FUZZ_H
#define TMESH_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/check.h"

#ifdef __cplusplus
extern "C" {
#endif

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

#ifdef __cplusplus
}
#endif

#define FUZZ_CHECK(expr) TMESH_ASSERT(expr)

#endif
