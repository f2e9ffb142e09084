// What a SOCKS5 client is told about an open (requirement B9, RFC 1928 section 6). One
// table; the reply is all that leaves the program, never a text of the system.
#pragma once

#include <cstdint>

#include "core/proto/open_result.h"

namespace tmesh::client {

enum Socks5Reply : uint8_t {
  kReplySucceeded = 0x00,
  kReplyGeneralFailure = 0x01,
  kReplyNotAllowed = 0x02,
  kReplyNetworkUnreachable = 0x03,
  kReplyHostUnreachable = 0x04,
  kReplyConnectionRefused = 0x05,
  kReplyTtlExpired = 0x06,
  kReplyCommandNotSupported = 0x07,
  kReplyAddressTypeNotSupported = 0x08,
};

// Any value outside the enum is a general failure.
Socks5Reply socks5_reply(unsigned open_code);

// Why an open was refused, for a person at a terminal: a static phrase without an address.
const char* open_error_text(const tmesh_open_result& result);

}  // namespace tmesh::client
