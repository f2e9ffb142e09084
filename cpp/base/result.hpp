// Result<T>: a value or an Error. Errors carry a stable code, the scope a caller
// needs for isolation (requirement C6) and a static text; never a heap string and
// never a text from the operating system.
#pragma once

#include <cstdint>
#include <expected>
#include <utility>

extern "C" {
#include "core/base/status.h"
}

namespace tmesh {

struct Error {
  tmesh_code code = TMESH_E_INVALID;
  tmesh_scope scope = TMESH_SCOPE_STREAM;
  const char* text = "";  // static storage; safe to log, holds no secret or target
};

template <class T>
using Result = std::expected<T, Error>;

[[nodiscard]] inline std::unexpected<Error> fail(tmesh_code code, const char* text,
                                                 tmesh_scope scope = TMESH_SCOPE_STREAM) {
  return std::unexpected<Error>(Error{code, scope, text});
}

}  // namespace tmesh
