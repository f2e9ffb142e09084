// Heads out of text, for tests of what is done with them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "cpp/http/proxy/message_reader.hpp"

namespace tmesh::http {

// Up to and with the empty line; line ends may be written as "\n".
inline std::string wire(std::string_view text) {
  std::string out;
  for (const char c : text) out.append(c == '\n' ? "\r\n" : std::string(1, c));
  return out;
}

inline std::unique_ptr<MessageReader> head_of(MessageReader::Kind kind, std::string_view text) {
  auto reader = std::make_unique<MessageReader>(kind);
  const std::string bytes = wire(text);
  const std::size_t used = reader->feed({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  EXPECT_EQ(used, bytes.size()) << text;
  EXPECT_NE(reader->state(), MessageReader::State::head) << text;
  EXPECT_NE(reader->state(), MessageReader::State::failed) << text;
  return reader;
}

}  // namespace tmesh::http
