#include <lockstep/comm/scheduler_meeting.h>

#include <lockstep/base/error.h>
#include <lockstep/base/this_host.h>
#include <lockstep/comm/rank_info.h>
#include <lockstep/scheduler/security.h>

#include <utility>

namespace lockstep::detail {
namespace {

scheduler::WorkerSessionOptions session_options(const ClusterSettings& settings,
                                                std::chrono::milliseconds start_timeout) {
  scheduler::WorkerSessionOptions options;
  options.host = settings.host;
  options.port = settings.port;
  options.node_id = settings.node_id;
  options.host_name = lockstep::host_name().value_or("?");
  options.machine = host_identity();
  options.secret = scheduler::read_secret(settings);
  scheduler::Tls tls = scheduler::make_client_tls(settings);
  options.tls = std::move(tls.context);
  options.check_of_certificates = std::move(tls.check_of_certificates);
  options.start_timeout = start_timeout;
  options.recovers = settings.recovery;
  options.silence = scheduler::milliseconds_of(settings.node_timeout_s);
  return options;
}

}  // namespace

RankedWorld meet_scheduler(const World& world, const GroupOptions& options, const Environment& environment) {
  if (world.meeting != Meeting::scheduler) return {world, nullptr};
  const auto settings = find_cluster(environment, options.cluster, ClusterRole::worker);
  auto session = std::make_shared<scheduler::WorkerSession>(session_options(*settings, options.start_timeout));
  World met = at_place(world, session->place());
  met.scheduler_secret = scheduler::read_secret(*settings);
  if (met.host.empty()) met.host = lockstep::host_name().value_or("");
  return {std::move(met), std::move(session)};
}

World at_place(World world, const scheduler::RankAssignment& place) {
  world.rank = place.rank;
  world.size = place.size;
  world.local_rank = place.local_rank;
  world.local_size = place.local_size;
  world.store_prefix = "/" + place.store_key;
  return world;
}

}  // namespace lockstep::detail
