#include <lockstep/comm/open_store.h>

#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/comm/bind_address.h>
#include <lockstep/comm/c10d_error.h>
#include <lockstep/comm/file_meeting.h>
#include <lockstep/comm/mpi/exchange.h>
#include <lockstep/world/await_listener.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <thread>

namespace lockstep::detail {
namespace {

StorePtr host_tcp_store(const std::string& where, const std::string& host, std::uint16_t port,
                        std::chrono::milliseconds timeout) {
  try {
    return make_tcp_store(host, port, true, timeout);
  } catch (const std::exception& error) {
    fail(ErrorKind::io, "connect",
         "rank 0 cannot open the port for the meeting of ranks, {}: {}. If another program uses the port, stop it or "
         "choose a free one with MASTER_PORT",
         where, first_line(error));
  }
}

[[noreturn]] void fail_to_reach(const std::string& where, std::chrono::milliseconds timeout, const std::string& why) {
  fail(ErrorKind::timeout, "connect",
       "cannot reach the store at {} within {:.1f} s: {}. Rank 0 opens it; look into its log, and check that this "
       "host can reach that address (MASTER_ADDR, MASTER_PORT)",
       where, static_cast<double>(timeout.count()) / 1000, why);
}

// A store of c10d lets one connection in at a time, and looks at all others in between. Those that do not fit into the
// kernel's queue (net.core.somaxconn, 4,096 by default, of which a rank needs three) are tried again after whole
// seconds.
void take_turns(const World& world, std::chrono::milliseconds timeout) {
  constexpr int kAtOnce = 1000;
  if (world.size <= kAtOnce) return;
  const std::chrono::microseconds longest = timeout / 4;
  std::this_thread::sleep_for(std::min(world.rank * std::chrono::microseconds(500), longest));
}

// One rank of each host says what all of them wait for.
StorePtr reach_tcp_store(const World& world, const std::string& where, const std::string& host, std::uint16_t port,
                         std::chrono::milliseconds timeout, const std::function<void()>& give_up = {}) {
  const auto tell = [&](std::chrono::seconds waited, const std::string& reason) {
    if (world.local_rank != 0) return;
    log_warning("rank {} waits for the store at {}: {} s of at most {:.0f} s ({})", world.rank, where, waited.count(),
                static_cast<double>(timeout.count()) / 1000, reason);
  };
  take_turns(world, timeout);
  if (give_up) give_up();
  if (const auto why = await_listener(host, port, timeout, tell, give_up)) fail_to_reach(where, timeout, *why);
  try {
    return make_tcp_store(host, port, false, timeout);
  } catch (const std::exception& error) {
    fail_to_reach(where, timeout, first_line(error));
  }
}

OpenedStore open_tcp(const World& world, std::chrono::milliseconds timeout) {
  OpenedStore opened;
  opened.where = fmt::format("{}:{}", world.master_addr, world.master_port);
  opened.host = world.master_addr;
  opened.port = world.master_port;
  opened.held_here = world.rank == 0 && !world.store_is_external;
  opened.store = opened.held_here ? host_tcp_store(opened.where, world.master_addr, world.master_port, timeout)
                                  : reach_tcp_store(world, opened.where, world.master_addr, world.master_port, timeout);
  return opened;
}

OpenedStore open_through_mpi(const World& world, std::chrono::milliseconds timeout) {
  OpenedStore opened;
  opened.held_here = world.rank == 0;
  mpi::Endpoint endpoint;
  mpi::require_same(world);
  const bool one_host = mpi::all_on_one_host(timeout);
  if (opened.held_here) {
    const auto named = named_interface_address(current_environment());
    endpoint.host = one_host ? "127.0.0.1" : named.value_or(outward_address());
    opened.store = host_tcp_store(endpoint.host, endpoint.host, 0, timeout);
    endpoint.port = static_cast<c10d::TCPStore&>(*opened.store).getPort();
  }
  endpoint = mpi::broadcast_from_rank_0(endpoint, timeout);
  opened.where = fmt::format("{}:{}", endpoint.host, endpoint.port);
  opened.host = endpoint.host;
  opened.port = endpoint.port;
  if (!opened.held_here) opened.store = reach_tcp_store(world, opened.where, endpoint.host, endpoint.port, timeout);
  return opened;
}

// Rank 0 takes a port that is free, and tells it: nobody else can have it in between.
OpenedStore open_through_scheduler(const World& world, std::chrono::milliseconds timeout, scheduler::Seat& seat) {
  OpenedStore opened;
  opened.held_here = world.rank == 0;
  if (opened.held_here) {
    opened.host = named_interface_address(current_environment()).value_or(seat.own_address());
    opened.store = host_tcp_store(opened.host, opened.host, 0, timeout);
    opened.port = static_cast<c10d::TCPStore&>(*opened.store).getPort();
    seat.publish_store(opened.host, opened.port);
  } else {
    const auto there = seat.await_store(std::chrono::steady_clock::now() + timeout);
    opened.host = there.host;
    opened.port = static_cast<std::uint16_t>(there.port);
  }
  opened.where = fmt::format("{}:{}", opened.host, opened.port);
  const auto give_up = [&seat] { seat.throw_if_lost(); };
  if (!opened.held_here)
    opened.store = reach_tcp_store(world, opened.where, opened.host, opened.port, timeout, give_up);
  return opened;
}

OpenedStore open_any(const World& world, std::chrono::milliseconds timeout, scheduler::Seat* seat) {
  switch (world.meeting) {
    case Meeting::tcp: return open_tcp(world, timeout);
    case Meeting::file: return meet_in_file(world, timeout);
    case Meeting::mpi: return open_through_mpi(world, timeout);
    case Meeting::scheduler:
      if (seat != nullptr) return open_through_scheduler(world, timeout, *seat);
      break;
    case Meeting::alone: break;
  }
  if (world.size != 1) {
    fail(ErrorKind::invalid_argument, "connect",
         "a world of {} ranks needs a way to meet (tcp, file or mpi), not alone", world.size);
  }
  return {c10::make_intrusive<c10d::HashStore>(), true, "this process", "", 0};
}

StorePtr with_keys_of(const World& world, const StorePtr& store, std::chrono::milliseconds timeout) {
  store->setTimeout(timeout);
  return c10::make_intrusive<c10d::PrefixStore>(world.store_prefix + "/lockstep", store);
}

}  // namespace

OpenedStore open_store(const World& world, std::chrono::milliseconds timeout, scheduler::Seat* seat) {
  auto opened = open_any(world, timeout, seat);
  opened.store = with_keys_of(world, opened.store, timeout);
  return opened;
}

StorePtr visit_store(const World& world, const std::string& host, std::uint16_t port,
                     std::chrono::milliseconds timeout) {
  if (world.meeting == Meeting::file) {
    // Of no known number of ranks: it does not remove the file.
    return with_keys_of(world, c10::make_intrusive<c10d::FileStore>(world.store_path, -1), timeout);
  }
  const auto where = fmt::format("{}:{}", host, port);
  const auto quiet = [](std::chrono::seconds, const std::string&) {};
  if (const auto why = await_listener(host, port, timeout, quiet)) {
    fail(ErrorKind::timeout, "connect", "cannot connect to {}, where the ranks meet: {}", where, *why);
  }
  return with_keys_of(world, make_tcp_store(host, port, false, timeout), timeout);
}

}  // namespace lockstep::detail
