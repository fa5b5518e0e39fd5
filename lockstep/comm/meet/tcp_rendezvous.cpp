// Rendezvous follow each other: several groups of one program, and several programs of one job. A store of the launcher
// holds all of them, and each has its own keys. Rank 0 opens a rendezvous and increments the count; the other ranks
// join the last one that is not over, or wait for the next. A store of rank 0 holds one rendezvous; a rank that finds
// it over waits until rank 0 has left it, and looks for the next store at the same place.
//
//   rendezvous              the number of opened rendezvous
//   rendezvous_N/...         the keys of the N-th; its outcome ends it for ranks that arrive later

#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/comm/meet/addresses.h>
#include <lockstep/comm/meet/rendezvous.h>
#include <lockstep/comm/meet/stores.h>
#include <lockstep/world/await_listener.h>
#include <lockstep/world/host_addresses.h>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace lockstep::detail {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// The first line of c10d's message, without the C++ backtrace that follows it.
std::string first_line(const std::exception& error) {
  std::string text = error.what();
  text.resize(std::min(text.size(), text.find('\n')));
  while (text.ends_with('.')) text.pop_back();
  return text;
}

constexpr auto kRendezvous = "rendezvous";

std::string corner_of(const World& world) { return world.store_prefix + "/lockstep"; }
std::string prefix_of_rendezvous(std::int64_t number) { return fmt::format("rendezvous_{}", number); }

StorePtr with_keys_of(const World& world, const StorePtr& store, milliseconds timeout) {
  store->setTimeout(timeout);
  return c10::make_intrusive<c10d::PrefixStore>(corner_of(world), store);
}

StorePtr keys_of_rendezvous(const StorePtr& store, std::int64_t number) {
  return c10::make_intrusive<c10d::PrefixStore>(prefix_of_rendezvous(number), store);
}

// Closes the previous rendezvous, whose rank 0 may have died, so that no rank joins it any more.
StorePtr open_rendezvous(const StorePtr& store) {
  const auto number = store->add(kRendezvous, 1);
  if (number > 1) close_rendezvous(*keys_of_rendezvous(store, number - 1));
  return keys_of_rendezvous(store, number);
}

std::int64_t last_rendezvous(const StorePtr& store) { return std::max<std::int64_t>(store->add(kRendezvous, 0), 1); }

// The number of the rendezvous that a rank other than 0 joins.
std::int64_t find_rendezvous(const StorePtr& store, int rank) {
  const auto number = last_rendezvous(store);
  return is_over(*keys_of_rendezvous(store, number), rank) ? number + 1 : number;
}

double seconds_in(milliseconds duration) { return static_cast<double>(duration.count()) / 1000; }

// One rank of each host logs what all of its ranks wait for: after 2 s, and then every 10 s.
class StoreWait {
 public:
  StoreWait(const World& world, std::string what, milliseconds limit)
      : rank_(world.rank), speaks_(world.local_rank <= 0), what_(std::move(what)), limit_(limit) {}

  milliseconds left() const {
    return std::max(std::chrono::ceil<milliseconds>(begin_ + limit_ - Clock::now()), milliseconds(0));
  }
  milliseconds limit() const { return limit_; }
  bool over() const { return left() == milliseconds(0); }
  bool is_younger_than(milliseconds age) const { return Clock::now() - begin_ < age; }

  void tell(const std::string& reason) {
    if (Clock::now() < next_word_) return;
    next_word_ = Clock::now() + seconds(10);
    if (!speaks_) return;
    log_warning("rank {} waits for {}: {} s of at most {:.0f} s ({})", rank_, what_,
                std::chrono::round<seconds>(Clock::now() - begin_).count(), seconds_in(limit_), reason);
  }

 private:
  int rank_;
  bool speaks_;
  std::string what_;
  milliseconds limit_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point next_word_ = begin_ + seconds(2);
};

bool resolves_in_time(const World& world, const std::string& host, milliseconds timeout) {
  StoreWait wait(world, fmt::format("the name {} to resolve", host), timeout);
  // Names of a cluster may become resolvable a little later than its processes start.
  for (milliseconds pause(10); resolve(host).empty(); pause = std::min(pause * 2, milliseconds(500))) {
    if (wait.over()) return false;
    wait.tell("this host cannot resolve it yet");
    std::this_thread::sleep_for(std::min(pause, wait.left()));
  }
  return true;
}

// The settings that a user changes to move the rendezvous. Ranks that a launcher started do not have the settings of
// the launcher.
struct PlaceSettings {
  std::string host;
  std::string port;
};

PlaceSettings settings_of(const World& world) {
  if (world.launcher == "nodes") return {"the first address in the list of nodes", "ctrl_port"};
  if (world.evidence.find("LOCKSTEP_INIT_METHOD=") != std::string::npos) {
    return {"the host in the URL of the init method", "the port in the URL of the init method"};
  }
  return {"MASTER_ADDR", "MASTER_PORT (a launcher's --master_port, or ctrl_port of a list of nodes)"};
}

[[noreturn]] void fail_to_resolve(const World& world, const std::string& host, milliseconds timeout) {
  fail(ErrorKind::timeout, "connect",
       "the name of the host where the ranks meet, {}, does not resolve on this host within {:.1f} s. Set {} to the "
       "name or address of rank 0's host that all hosts can reach",
       host, seconds_in(timeout), settings_of(world).host);
}

[[noreturn]] void fail_to_host(const World& world, const std::string& where, const std::string& host,
                               const std::string& why) {
  const auto settings = settings_of(world);
  std::string advice = fmt::format("; choose another port with {}", settings.port);
  if (why.find("already in use") != std::string::npos) {
    advice = fmt::format(
        ". If another program uses the port, stop it or choose a free one with {}; if it is a group of "
        "this program that met there before, destroy it first",
        settings.port);
  } else if (!any_is_own(resolve(host), own_addresses())) {
    advice = fmt::format(
        ". {} is no address of this host, and rank 0 runs here: set {} to this host's name or address, or "
        "start rank 0 there",
        host, settings.host);
  }
  fail(ErrorKind::io, "connect", "rank 0 cannot open the port for the rendezvous of ranks, {}: {}{}", where, why,
       advice);
}

// The credentials that both sides of a connection to the store present. Under a scheduler only registered workers
// receive the prefix of the keys.
store::Credentials credentials_of(const World& world) {
  if (world.rendezvous == Rendezvous::scheduler) {
    return {prove(world.scheduler_secret, "store", world.store_prefix), world.tls};
  }
  return {lockstep::find(current_environment(), "LOCKSTEP_STORE_SECRET").value_or(""), world.tls};
}

OwnStorePtr host_store(const World& world, const std::string& host, std::uint16_t port, milliseconds timeout) {
  if (!resolves_in_time(world, host, timeout)) fail_to_resolve(world, host, timeout);
  const auto rendezvous_host = find_rendezvous_host(world, host);
  const auto own = own_addresses();
  try {
    return host_own_store({host_to_connect_to(rendezvous_host, own), port, credentials_of(world)},
                          addresses_to_listen_on(rendezvous_host, own), timeout);
  } catch (const std::exception& error) {
    fail_to_host(world, host_and_port(host, port), host, first_line(error));
  }
}

[[noreturn]] void fail_to_reach(const World& world, const std::string& where, milliseconds timeout,
                                const std::string& why) {
  const auto settings = settings_of(world);
  const bool named = why.find("does not resolve") != std::string::npos;
  const auto advice =
      named ? fmt::format("Set {} to the name or address of rank 0's host that all hosts can reach", settings.host)
            : fmt::format(
                  "Rank 0 opens it; read its log, and check that this host can reach that address, which {} and {} set",
                  settings.host, settings.port);
  fail(ErrorKind::timeout, "connect", "cannot reach the store at {} within {:.1f} s: {}. {}", where,
       seconds_in(timeout), why, advice);
}

constexpr auto kNotLeft = "it belongs to an earlier rendezvous, which rank 0 has not left yet";

[[noreturn]] void fail_beside_earlier(const std::string& where, const StoreWait& wait) {
  fail(ErrorKind::timeout, "connect",
       "the store at {} belongs to an earlier rendezvous, and rank 0 has not left that within {:.1f} s. The next "
       "rendezvous begins when each rank has destroyed its last handle to the group, or has ended",
       where, seconds_in(wait.limit()));
}

// The host to which a rank connects: the one on which rank 0 listens. Rank 0 determines it in the same way.
std::string host_of_store(const World& world, const std::string& host, milliseconds timeout) {
  if (world.store_is_external || world.local_size != world.size) return host;
  if (!resolves_in_time(world, host, timeout)) fail_to_resolve(world, host, timeout);
  return host_to_connect_to(find_rendezvous_host(world, host), own_addresses());
}

// A store that holds one rendezvous, which is over: waits until rank 0 has left it. Requests to the store then throw an
// exception.
[[noreturn]] void await_its_end(c10d::Store& store, const std::string& where, StoreWait& wait,
                                const std::function<void()>& give_up) {
  for (milliseconds pause(2);; pause = std::min(pause * 2, milliseconds(100))) {
    store.add(kRendezvous, 0);
    if (give_up) give_up();
    if (wait.over()) fail_beside_earlier(where, wait);
    wait.tell(kNotLeft);
    std::this_thread::sleep_for(std::min(pause, wait.left()));
  }
}

// A connection to the store. A store of the launcher may be c10d's, which closes the connection after our first
// message, as does a store of ours that has too many unfinished handshakes.
StorePtr join_store(const World& world, const std::string& host, std::uint16_t port, milliseconds timeout) {
  try {
    return join_own_store({host, port, credentials_of(world)}, timeout);
  } catch (const store::NoWord&) {
    if (!world.store_is_external || world.store_is_own) throw;
  }
  if (world.tls && world.local_size != world.size) {
    fail(ErrorKind::unsupported, "connect",
         "encryption is on (parallel.encrypt, LOCKSTEP_ENCRYPT), but the store of the launcher at {}:{} belongs to "
         "c10d, which cannot encrypt. Start with 'lockstep run' instead of torchrun, or without encryption",
         host, port);
  }
  return make_tcp_store(host, port, false, timeout);
}

// A store that refuses this rank may belong to an earlier job that is about to end.
constexpr milliseconds kPatienceWithOthers = seconds(10);

StorePtr join_unless_refused(const World& world, const std::string& host, std::uint16_t port, milliseconds limit,
                             const StoreWait& wait) {
  try {
    return join_store(world, host, port, limit);
  } catch (const Error& error) {
    if (!wait.is_younger_than(kPatienceWithOthers)) throw;
    throw std::runtime_error(error.message());
  }
}

}  // namespace

StorePtr keys_of_only_rendezvous(const World& world, const StorePtr& store, milliseconds timeout) {
  return keys_of_rendezvous(with_keys_of(world, store, timeout), 1);
}

StorePtr reach_tcp_store(const World& world, const std::string& host, std::uint16_t port, milliseconds timeout,
                         const std::function<void()>& give_up) {
  const auto where = host_and_port(host, port);
  const auto there = host_of_store(world, host, timeout);
  if (give_up) give_up();
  StoreWait wait(world, fmt::format("the store at {}", where), timeout);
  const auto tell = [&](seconds, const std::string& reason) { wait.tell(reason); };
  for (milliseconds pause(5);; pause = std::min(pause * 2, milliseconds(250))) {
    if (const auto why = await_listener(there, port, wait.left(), tell, give_up))
      fail_to_reach(world, where, timeout, *why);
    std::string why;
    try {
      const auto limit = std::max(wait.left(), milliseconds(1000));
      const auto joined = join_unless_refused(world, there, port, limit, wait);
      const auto store = with_keys_of(world, joined, timeout);
      if (world.rank == 0) return open_rendezvous(store);
      const auto number = find_rendezvous(store, world.rank);
      if (number == 1 || world.store_is_external) return keys_of_rendezvous(store, number);
      await_its_end(*store, where, wait, give_up);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      why = first_line(error);  // its holder may just have left an earlier rendezvous
    }
    if (wait.over()) fail_to_reach(world, where, timeout, why);
    wait.tell(why);
    std::this_thread::sleep_for(std::min(pause, wait.left()));
  }
}

void host_rendezvous(OpenedStore& opened, const World& world, milliseconds timeout) {
  const auto store = host_store(world, opened.host, opened.port, timeout);
  opened.held_here = true;
  opened.port = store->port();
  opened.store = open_rendezvous(with_keys_of(world, store, timeout));
}

StorePtr visit_tcp_store(const World& world, const std::string& host, std::uint16_t port, bool found,
                         milliseconds timeout) {
  const auto where = host_and_port(host, port);
  const auto quiet = [](seconds, const std::string&) {};
  const auto there = host_of_store(world, host, timeout);
  if (const auto why = await_listener(there, port, timeout, quiet)) {
    fail(ErrorKind::timeout, "connect", "cannot connect to {}, where the ranks meet: {}", where, *why);
  }
  const auto store = with_keys_of(world, join_store(world, there, port, timeout), timeout);
  const bool has_one_rendezvous = !world.store_is_external && world.rank != 0;
  if (!found && has_one_rendezvous && find_rendezvous(store, world.rank) != 1) {
    fail(ErrorKind::timeout, "connect", "cannot meet at {} yet: {}", where, kNotLeft);
  }
  // While its start-up continues, the last rendezvous is this rank's own, even when all ranks have arrived and it is
  // over for others.
  return keys_of_rendezvous(store, found ? last_rendezvous(store) : find_rendezvous(store, world.rank));
}

}  // namespace lockstep::detail
