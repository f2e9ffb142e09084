// Who decides streams, as the open path sees it (requirement D1).
#pragma once

#include <optional>

#include "cpp/base/delegate.hpp"
#include "cpp/base/result.hpp"
#include "cpp/base/ticket.hpp"
#include "cpp/server/authorizer.hpp"

namespace tmesh::server {

class StreamAuthorizer {
 public:
  virtual ~StreamAuthorizer() = default;
  // The answer that is known already: an allow, or TMESH_E_POLICY. nullopt: authorize() has
  // to be asked. Nothing is waited for, which spares an open an iteration of the loop.
  virtual std::optional<Result<Grant>> lookup(const StreamRequest&) { return std::nullopt; }
  // Decides, after lookup() knew nothing: begins a decision, or joins one under way. Errors
  // of Authorizer::authorize, and LIMIT. `done` runs from the loop, never inside this call.
  // Destroying the Ticket is the caller's own cancellation and touches nobody who waits for
  // the same answer.
  virtual Result<Ticket> authorize(StreamRequest request, Delegate<void(Result<Grant>)> done) = 0;
};

}  // namespace tmesh::server
