#include "cpp/server/client_stream_service.hpp"

#include <functional>

#include "cpp/base/log.hpp"

namespace tmesh::server {
namespace {

OpenExecutor::Limits limits_of(const config::ServerStreamSettings& settings) {
  return {static_cast<std::size_t>(settings.concurrent_opens_max),
          static_cast<std::size_t>(settings.pending_opens_max),
          static_cast<std::size_t>(settings.opens_per_link_max)};
}

}  // namespace

ClientStreamService::ClientStreamService(Timers& timers, StreamAuthorizer& authorizer,
                                         AgentRegistry& registry,
                                         const config::ServerStreamSettings& settings,
                                         LiveRevocation* revocation)
    : timers_(timers),
      authorizer_(authorizer),
      registry_(registry),
      revocation_(revocation),
      slots_(settings.active_per_token_max, settings.active_per_agent_max),
      executor_(timers, limits_of(settings)) {}

ClientStreamService::~ClientStreamService() = default;

void ClientStreamService::use(const config::ServerStreamSettings& settings) {
  slots_.set_max(settings.active_per_token_max, settings.active_per_agent_max);
  executor_.use(limits_of(settings));
}

void ClientStreamService::open(std::string_view token_id, uint64_t link_id, tmesh_stream* stream,
                               const tmesh_open_stream& open) {
  const OpenFlowParts parts{timers_, executor_, authorizer_, registry_, slots_, *this, revocation_};
  flows_.push_back(std::make_unique<OpenFlow>(parts, stream, open));
  OpenFlow& flow = *flows_.back();
  flow.place = std::prev(flows_.end());
  const uint64_t client_key = std::hash<std::string_view>{}(token_id);
  if (cancels_.refuses(client_key, timers_.now_us())) {
    stats_.rapid_reset_refused_count++;
    return flow.refuse_full();
  }
  flow.start(token_id, link_id, client_key);
}

void ClientStreamService::on_opened(std::list<StreamRelay>& made, unsigned agent_events) {
  relays_.splice(relays_.end(), made);
  StreamRelay& relay = relays_.back();
  relay.place = std::prev(relays_.end());
  relay.take_over(StreamRelay::Done::bind<&ClientStreamService::on_relay_done>(this));
  stats_.opened_count++;
  // Installed first, then answered (requirement C7): DATA behind the answer finds its relay.
  relay.answer_client(tmesh_open_accept());
  // The answer itself was for the flow: the agent may have RESET behind it, and the relay
  // hears of that in an event of its own, after what came before the RESET.
  relay.agent_event(agent_events & ~TMESH_STREAM_EV_RESULT);
}

void ClientStreamService::on_flow_over(OpenFlow& flow) {
  flows_.erase(flow.place);
}

void ClientStreamService::on_relay_done(StreamRelay& relay, tmesh_status why) {
  log::debug("relay_done", {{"reason", tmesh_code_name(why.code)}});
  if (relay.is_open_cancelled(timers_.now_us())) on_cancelled(relay.client_key());
  relays_.erase(relay.place);
}

}  // namespace tmesh::server
