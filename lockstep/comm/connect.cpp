// From a world and settings to the group of all ranks: connect() and init(), and rejoin() after a loss.
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/injected_fault.h>
#include <lockstep/base/log.h>
#include <lockstep/base/text.h>
#include <lockstep/comm/arguments.h>
#include <lockstep/comm/backends.h>
#include <lockstep/comm/doctor/examine_job.h>
#include <lockstep/comm/group.h>
#include <lockstep/comm/group_impl.h>
#include <lockstep/comm/job_context.h>
#include <lockstep/comm/meet/addresses.h>
#include <lockstep/comm/meet/lost_peers.h>
#include <lockstep/comm/meet/rendezvous.h>
#include <lockstep/comm/meet/stores.h>
#include <lockstep/membership/member_session.h>
#include <lockstep/net/tls_contexts.h>
#include <lockstep/world/cluster_settings.h>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace lockstep {
namespace {

void check_world(const World& world) {
  if (world.size >= 1 && world.rank >= 0 && world.rank < world.size) return;
  if (world.rendezvous == Rendezvous::scheduler && world.rank == -1) return;
  fail(ErrorKind::invalid_argument, "connect", "rank {} of {} is not a rank: 0 <= rank < size must hold", world.rank,
       world.size);
}

struct OwnAddress {
  std::string address;
  std::string chosen_by;  ///< as in RankInfo
};

// The address at which other hosts reach this one, as far as it is known before any connection. A variable that decided
// is recorded in the world's evidence.
OwnAddress address_of_this_host(World& world, const MemberSession* session, const Environment& environment) {
  std::string usual;
  if (session != nullptr) {
    usual = session->own_address();
  } else if (world.rendezvous == Rendezvous::tcp) {
    usual = detail::address_for_others(world);
  }
  if (world.size == 1) return {usual, {}};  // the address is not sent to any rank
  const auto named = detail::named_interface(environment, usual);
  if (!named) return {usual, {}};
  world.evidence += fmt::format(" {}={}: {} of {}", named->variable, named->value, named->address, named->interface);
  return {named->address, fmt::format("{}={}, interface {}", named->variable, named->value, named->interface)};
}

// Used when no launcher gives the number of ranks on this host, or the local rank.
void count_local_ranks(World& world, const detail::GroupMembers& everyone) {
  if (world.local_size != 0) return;
  world.local_size = everyone.local_size;
  if (world.local_rank < 0 || world.local_rank >= world.local_size) world.local_rank = everyone.local_rank;
}

// Ranks with different settings would fail to connect later, or would connect without the encryption that some of them
// require.
void check_same_encryption(const std::vector<detail::RankInfo>& ranks, int rank, c10d::Store& store) {
  std::vector<int> encrypting;
  std::vector<int> others;
  for (const auto& info : ranks) (info.encrypts ? encrypting : others).push_back(info.rank);
  if (encrypting.empty() || others.empty()) return;
  detail::leave_together(store, rank, static_cast<int>(ranks.size()));
  fail(ErrorKind::mismatch, "connect",
       "encryption (parallel.encrypt, LOCKSTEP_ENCRYPT) is on for rank {} and off for rank {}; use the same setting on "
       "all ranks",
       fmt::join(encrypting, ", "), fmt::join(others, ", "));
}

// An announced address: the port, then the host, which may contain colons.
std::string announced_text(const std::string& host, std::uint16_t port) { return fmt::format("{} {}", port, host); }

// The world with the address that rank 0 has announced.
World at_announced(World world, const std::string& text) {
  const auto space = text.find(' ');
  const auto port = parse_integer(text.substr(0, space));
  if (space == std::string::npos || !port || *port < 1 || *port > 65535) {
    fail(ErrorKind::invalid_argument, "connect",
         "the announcement of rank 0 is \"{}\", and should be the text that rank 0 published, \"PORT HOST\"; carry it "
         "without a change, and give each group a key of its own",
         text);
  }
  world.master_port = static_cast<std::uint16_t>(*port);
  world.master_addr = text.substr(space + 1);
  return world;
}

/// Connects to the other ranks. `session`: under a scheduler, else nullptr. `announcement`: rank 0 publishes the
/// address of its store with it; nullptr where all ranks know it. Errors as for connect().
Group join(const World& world, std::shared_ptr<MemberSession> session, const GroupOptions& settings,
           const Announcement* announcement = nullptr) {
  const auto environment = current_environment();
  World met = world;
  auto [address, chosen_by] = address_of_this_host(met, session.get(), environment);
  auto self = detail::this_rank(world, address);
  self.address_chosen_by = std::move(chosen_by);
  doctor::StartWatch watch(world, environment);
  const detail::SocketsMadeSince sockets;
  const auto give_up = [&] {
    if (session) session->throw_if_lost();
    if (announcement != nullptr && announcement->give_up) announcement->give_up();
  };
  detail::OpenedStore store;
  std::optional<std::vector<detail::RankInfo>> ranks;
  while (!ranks) {
    store = detail::open_store(world, settings.start_timeout, session.get());
    if (announcement != nullptr && world.rank == 0) announcement->publish(announced_text(store.host, store.port));
    watch.found_store(store.host, store.port);
    self.hello = detail::this_rank(world, address).hello;  // of this attempt
    ranks = detail::meet(*store.store, self, world.size, settings.start_timeout, give_up);
  }
  // c10d's store has a second connection on which a thread waits for data that is never sent. When that connection
  // breaks, the thread ends the process.
  sockets.notice_lost_hosts(settings.host_timeout, detail::SocketsMadeSince::Which::spoken_on);

  check_same_encryption(*ranks, world.rank, *store.store);
  trigger(find_injected_fault(environment), world.rank, session ? session->place().generation : 1, FaultPlace::connect);
  std::vector<int> everyone(static_cast<std::size_t>(world.size));
  std::iota(everyone.begin(), everyone.end(), 0);
  auto members = detail::group_members(settings.name, std::move(everyone), world.rank, *ranks);
  count_local_ranks(met, members);
  auto job = std::make_shared<detail::JobContext>(std::move(met), settings, std::move(store), std::move(*ranks),
                                                  std::move(address), std::move(session));
  auto group = detail::GroupImpl::make(std::move(job), std::move(members), settings.backend);
  // No rank continues, and perhaps leaves again, before all have joined.
  detail::agree(*group, {"connect", 0}, "join", std::nullopt);
  group->job()->all_joined();
  return Group(std::move(group));
}

// All ranks of a generation receive their rank numbers at its beginning, so the rendezvous takes only as long as their
// network needs. A rank that is lost meanwhile must not delay the others for as long as a program start may take.
constexpr std::chrono::milliseconds kLongestRendezvous = std::chrono::seconds(20);

// Ranks that die during the rendezvous are replaced; an error with another cause would occur again.
constexpr int kMostAttempts = 20;

/// The same with replacement of ranks that are lost meanwhile: the next attempt uses the next generation. nullopt when
/// the job was completed meanwhile. Errors: that of the last attempt, when all fail; those of MemberSession.
std::optional<Group> join_with_recovery(const World& world, const std::shared_ptr<MemberSession>& session,
                                        const GroupOptions& settings) {
  GroupOptions quick = settings;
  quick.start_timeout = std::min(settings.start_timeout, kLongestRendezvous);
  for (int attempt = 1;; ++attempt) {
    std::string reason;
    try {
      return join(at_place(world, session->place()), session, quick);
    } catch (const Error& error) {
      if (!is_loss(error) || attempt == kMostAttempts) throw;
      reason = error.what();
    }
    log_warning("the rendezvous of generation {} failed: {}", session->place().generation, reason);
    session->ask_again(reason);
    if (!session->await_next_place()) return std::nullopt;
  }
}

}  // namespace

Group connect(const World& start, const GroupOptions& options) {
  check_world(start);
  const auto environment = current_environment();
  const auto settings = detail::with_environment(options, environment);
  World known = start;
  if (settings.encrypt) known.tls = net::read_peer_tls(find_certificates(environment, settings.cluster));
  auto [world, session] = enter_job(
      known, {.cluster = settings.cluster, .start_timeout = settings.start_timeout, .rejoins = settings.rejoins},
      environment);
  if (!session || !session->recovers()) return join(world, std::move(session), settings);
  if (auto group = join_with_recovery(world, session, settings)) return *group;
  fail(ErrorKind::peer_lost, "connect", "the job was completed before this worker had joined it");
}

Group connect(const World& start, const Announcement& announcement, const GroupOptions& options) {
  check_world(start);
  const auto environment = current_environment();
  const auto settings = detail::with_environment(options, environment);
  World world = start;
  world.rendezvous = world.size == 1 ? Rendezvous::alone : Rendezvous::tcp;
  world.store_is_external = false;
  world.job_service.clear();
  if (settings.encrypt) world.tls = net::read_peer_tls(find_certificates(environment, settings.cluster));
  if (world.size == 1) return join(world, nullptr, settings);
  if (world.rank != 0) return join(at_announced(world, announcement.await()), nullptr, settings);
  world.master_addr = detail::named_interface_address(environment).value_or(detail::outward_address());
  world.master_port = 0;
  return join(world, nullptr, settings, &announcement);
}

namespace {

/// `lockstep run --servers` has started processes for which a program with its own loop has no work.
void refuse_servers() {
  const auto servers = find_integer(current_environment(), "LOCKSTEP_SERVERS", 0, std::int64_t{1} << 20).value_or(0);
  if (servers == 0) return;
  fail(
      ErrorKind::config, "init",
      "{} of the processes were started as parameter servers (lockstep run --servers), which this program does not "
      "have: lockstep train and programs with train_main() or a Trainer do, with parallel.mode=parameter_server; leave "
      "out --servers",
      servers);
}

}  // namespace

Group init(const GroupOptions& options) {
  refuse_servers();
  return connect(detect_world(), options);
}

Group init(std::string_view backend) { return init(GroupOptions{.backend = std::string(backend)}); }

Group init(const NodeList& nodes, const GroupOptions& options) {
  refuse_servers();
  return connect(detect_world(nodes), options);
}

Group init(const InitMethod& method, const GroupOptions& options) {
  refuse_servers();
  return connect(detect_world(method), options);
}

bool can_rejoin(const Group& group) {
  const auto& session = group.impl().job()->session();
  return session && session->recovers();
}

bool is_loss(const Error& error) { return error.kind() == ErrorKind::peer_lost || error.kind() == ErrorKind::timeout; }

std::optional<Group> rejoin(Group group, const std::string& reason) {
  const auto session = group.impl().job()->session();
  const auto settings = group.impl().job()->options();
  const auto world = group.world();
  session->ask_again(reason);
  std::optional<Group>(std::move(group)).reset();  // closes connections on which other ranks may still wait
  if (!session->await_next_place()) return std::nullopt;
  return join_with_recovery(world, session, settings);
}

LossWatch::LossWatch(const Group& group) : group_(group) {
  const auto& session = group_.impl().job()->session();
  if (!session) return;
  session->on_broken([this](const std::string& reason) {
    group_.impl().job()->end_groups(Error(ErrorKind::peer_lost, "group", reason));
  });
}

LossWatch::~LossWatch() {
  if (const auto& session = group_.impl().job()->session()) session->on_broken(nullptr);
}

}  // namespace lockstep
