// A Unix socket that answers every connection with one document and closes it: for
// `status`. What the other side says is not read.
//
// Only this user and root get an answer, whatever the mode of the file says (0600). At most
// kConnectionsMax at once, each for kTimeout_us; beyond that newcomers are closed without an
// answer. Independent of the memory budget: who asks wants to know also when that is used
// up. Move-free; one thread; the loop outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "cpp/base/delegate.hpp"
#include "cpp/base/result.hpp"
#include "cpp/net/loop.hpp"

namespace tmesh::net {

class DocumentSocket {
 public:
  // The document as it is now. Called from the loop, once per connection.
  using Document = Delegate<std::string()>;

  static constexpr std::size_t kConnectionsMax = 16;
  static constexpr uint64_t kTimeout_us = 2'000'000;

  // Errors of listen_unix.
  static Result<std::unique_ptr<DocumentSocket>> open(Loop& loop, const std::string& path, Document document,
                                                      uint64_t timeout_us = kTimeout_us);
  // Removes the file.
  ~DocumentSocket();
  DocumentSocket(const DocumentSocket&) = delete;
  DocumentSocket& operator=(const DocumentSocket&) = delete;

  const std::string& path() const;
  std::size_t connections_count() const;

 private:
  struct Impl;
  explicit DocumentSocket(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tmesh::net
