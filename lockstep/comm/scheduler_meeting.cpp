#include <lockstep/comm/scheduler_meeting.h>

#include <lockstep/base/error.h>
#include <lockstep/base/this_host.h>
#include <lockstep/comm/rank_info.h>
#include <lockstep/scheduler/security.h>

#include <utility>

namespace lockstep::detail {
namespace {

scheduler::SeatOptions seat_options(const ClusterSettings& settings, std::chrono::milliseconds start_timeout) {
  scheduler::SeatOptions options;
  options.host = settings.host;
  options.port = settings.port;
  options.node_id = settings.node_id;
  options.host_name = lockstep::host_name().value_or("?");
  options.machine = host_identity();
  options.secret = scheduler::read_secret(settings);
  options.tls = scheduler::make_client_tls(settings);
  options.start_timeout = start_timeout;
  options.silence = scheduler::milliseconds_of(settings.node_timeout_s);
  return options;
}

}  // namespace

Attendance meet_scheduler(const World& world, const GroupOptions& options, const Environment& environment) {
  if (world.meeting != Meeting::scheduler) return {world, nullptr};
  const auto settings = find_cluster(environment, options.cluster, ClusterRole::worker);
  auto seat = std::make_unique<scheduler::Seat>(seat_options(*settings, options.start_timeout));
  const auto& place = seat->place();
  World met = world;
  met.rank = place.rank;
  met.size = place.size;
  met.local_rank = place.local_rank;
  met.local_size = place.local_size;
  met.store_prefix = "/" + place.store_key;
  if (met.host.empty()) met.host = lockstep::host_name().value_or("");
  return {std::move(met), std::move(seat)};
}

}  // namespace lockstep::detail
