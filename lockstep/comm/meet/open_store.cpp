// The ways to open a store or to join one.
#include <lockstep/base/error.h>
#include <lockstep/comm/meet/addresses.h>
#include <lockstep/comm/meet/open_store.h>
#include <lockstep/comm/mpi/exchange.h>

#include <fmt/format.h>

#include <utility>

namespace lockstep::detail {
namespace {

using std::chrono::milliseconds;

OpenedStore open_tcp(const World& world, milliseconds timeout) {
  OpenedStore opened;
  opened.host = world.master_addr;
  opened.port = world.master_port;
  if (world.rank == 0 && !world.store_is_external) {
    host_rendezvous(opened, world, timeout);
  } else {
    opened.store = reach_tcp_store(world, opened.host, opened.port, timeout);
  }
  return opened;
}

OpenedStore open_through_mpi(const World& world, milliseconds timeout) {
  OpenedStore opened;
  mpi::MpiEndpoint endpoint;
  mpi::require_same(world);
  const bool one_host = mpi::all_on_one_host(timeout);
  if (world.rank == 0) {
    const auto named = named_interface_address(current_environment());
    opened.host = one_host ? "127.0.0.1" : named.value_or(outward_address());
    host_rendezvous(opened, world, timeout);
    endpoint = {opened.host, opened.port};
  }
  endpoint = mpi::broadcast_from_rank_0(endpoint, timeout);
  opened.host = endpoint.host;
  opened.port = endpoint.port;
  if (!opened.held_here) opened.store = reach_tcp_store(world, endpoint.host, endpoint.port, timeout);
  return opened;
}

// Rank 0 takes a free port and publishes it, so no other process can take the port in between.
OpenedStore open_through_scheduler(const World& world, milliseconds timeout, MemberSession& session) {
  OpenedStore opened;
  if (world.rank == 0) {
    opened.host = named_interface_address(current_environment()).value_or(session.own_address());
    host_rendezvous(opened, world, timeout);
    session.publish_store(opened.host, opened.port);
    return opened;
  }
  const auto there = session.await_store(std::chrono::steady_clock::now() + timeout);
  opened.host = there.host;
  opened.port = there.port;
  opened.store = reach_tcp_store(world, opened.host, opened.port, timeout, [&session] { session.throw_if_lost(); });
  return opened;
}

// A file, or no other rank: the store has no keys of an earlier rendezvous.
OpenedStore with_its_keys(OpenedStore opened, const World& world, milliseconds timeout) {
  opened.store = keys_of_only_rendezvous(world, opened.store, timeout);
  return opened;
}

OpenedStore open_any(const World& world, milliseconds timeout, MemberSession* session) {
  switch (world.rendezvous) {
    case Rendezvous::tcp: return open_tcp(world, timeout);
    case Rendezvous::file: return with_its_keys(meet_in_file(world, timeout), world, timeout);
    case Rendezvous::mpi: return open_through_mpi(world, timeout);
    case Rendezvous::scheduler:
      if (session != nullptr) return open_through_scheduler(world, timeout, *session);
      break;
    case Rendezvous::alone: break;
  }
  if (world.size != 1) {
    fail(ErrorKind::invalid_argument, "connect", "a world of {} ranks needs a rendezvous (tcp, file or mpi), not alone",
         world.size);
  }
  OpenedStore alone{c10::make_intrusive<c10d::HashStore>(), true, "this process", "", 0};
  return with_its_keys(std::move(alone), world, timeout);
}

}  // namespace

OpenedStore open_store(const World& world, milliseconds timeout, MemberSession* session) {
  auto opened = open_any(world, timeout, session);
  if (opened.where.empty()) opened.where = fmt::format("{}:{}", opened.host, opened.port);
  return opened;
}

StorePtr visit_store(const World& world, const std::string& host, std::uint16_t port, bool found,
                     milliseconds timeout) {
  if (world.rendezvous == Rendezvous::file) {
    // The number of ranks is not set, so this store does not remove the file.
    return keys_of_only_rendezvous(world, c10::make_intrusive<c10d::FileStore>(world.store_path, -1), timeout);
  }
  return visit_tcp_store(world, host, port, found, timeout);
}

}  // namespace lockstep::detail
