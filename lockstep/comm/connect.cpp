#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/injected_fault.h>
#include <lockstep/comm/agreement.h>
#include <lockstep/comm/bind_address.h>
#include <lockstep/comm/doctor/start_watch.h>
#include <lockstep/comm/group.h>
#include <lockstep/comm/group_impl.h>
#include <lockstep/comm/job.h>
#include <lockstep/comm/join.h>
#include <lockstep/comm/lost_hosts.h>
#include <lockstep/comm/open_store.h>
#include <lockstep/comm/rendezvous.h>
#include <lockstep/comm/settings.h>

#include <fmt/format.h>

#include <numeric>
#include <utility>

namespace lockstep {
namespace {

void check_world(const World& world) {
  if (world.size >= 1 && world.rank >= 0 && world.rank < world.size) return;
  if (world.meeting == Meeting::scheduler && world.rank == -1) return;
  fail(ErrorKind::invalid_argument, "connect", "rank {} of {} is not a rank: 0 <= rank < size must hold", world.rank,
       world.size);
}

// The address other hosts reach this one at, as far as it can be told before anybody was met; a variable that decided
// is noted among the world's evidence.
std::string address_of_this_host(World& world, const MemberSession* session, const Environment& environment) {
  std::string usual;
  if (session != nullptr) {
    usual = session->own_address();
  } else if (world.meeting == Meeting::tcp) {
    usual = detail::address_towards(world.master_addr, world.master_port);
  }
  if (world.size == 1) return usual;  // nobody is told
  const auto named = detail::named_interface(environment, usual);
  if (!named) return usual;
  world.evidence += fmt::format(" {}={}: {} of {}", named->variable, named->value, named->address, named->interface);
  return named->address;
}

// Of launchers that say the local rank but not how many there are.
void count_local_ranks(World& world, const detail::GroupMembers& everyone) {
  if (world.local_size != 0) return;
  world.local_size = everyone.local_size;
  if (world.local_rank >= world.local_size) world.local_rank = everyone.local_rank;
}

}  // namespace

Group detail::join(const World& world, std::shared_ptr<MemberSession> session, const GroupOptions& settings) {
  const auto environment = current_environment();
  World met = world;
  auto address = address_of_this_host(met, session.get(), environment);
  doctor::StartWatch watch(world, environment);
  const detail::SocketsMadeSince sockets;
  const auto give_up = [&session] {
    if (session) session->throw_if_lost();
  };
  detail::OpenedStore store;
  std::optional<std::vector<detail::RankInfo>> ranks;
  while (!ranks) {
    store = detail::open_store(world, settings.start_timeout, session.get());
    watch.found_store(store.host, store.port);
    ranks = detail::meet(*store.store, detail::this_rank(world, address), world.size, settings.start_timeout, give_up);
  }
  // c10d's store has a second connection, where a thread waits for what nobody sends. When that one breaks, the thread
  // ends the process.
  sockets.notice_lost_hosts(settings.host_timeout, detail::SocketsMadeSince::Which::spoken_on);

  trigger(find_injected_fault(environment), world.rank, session ? session->place().generation : 1, FaultPlace::connect);
  std::vector<int> everyone(static_cast<std::size_t>(world.size));
  std::iota(everyone.begin(), everyone.end(), 0);
  auto members = detail::group_members("world", std::move(everyone), world.rank, *ranks);
  count_local_ranks(met, members);
  auto job = std::make_shared<detail::Job>(std::move(met), settings, std::move(store), std::move(*ranks),
                                           std::move(address), std::move(session));
  auto group = detail::GroupImpl::make(std::move(job), std::move(members), settings.backend);
  // Nobody goes on, and perhaps leaves again, before all have joined.
  detail::agree(*group, {"connect", 0}, "join", std::nullopt);
  group->job()->all_joined();
  return Group(std::move(group));
}

Group connect(const World& start, const GroupOptions& options) {
  check_world(start);
  const auto environment = current_environment();
  const auto settings = detail::with_environment(options, environment);
  auto [world, session] = enter_job(
      start, {.cluster = settings.cluster, .start_timeout = settings.start_timeout, .rejoins = settings.rejoins},
      environment);
  if (!session || !session->recovers()) return detail::join(world, std::move(session), settings);
  if (auto group = detail::join_with_recovery(world, session, settings)) return *group;
  fail(ErrorKind::peer_lost, "connect", "the job was completed before this worker had joined it");
}

Group init(const GroupOptions& options) { return connect(detect_world(), options); }

Group init(const NodeList& nodes, const GroupOptions& options) { return connect(detect_world(nodes), options); }

}  // namespace lockstep
