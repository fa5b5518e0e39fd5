// How long many ranks take to meet through a store on this machine, and what that costs the store: a process of its own
// that is Lockstep's store or c10d's. Every simulated rank is a thread with a connection of its own. Prints one JSON
// object.
#include "service_process.h"

#include <lockstep/comm/meet/rendezvous.h>
#include <lockstep/comm/meet/stores.h>

#include <fmt/format.h>
#include <nss.h>
#include <pthread.h>
#include <torch/version.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace bench = lockstep::bench;
namespace comm = lockstep::detail;
using lockstep::Rendezvous;
using lockstep::World;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// As the launcher's secret, without which the store looks each connection up in the kernel's tables.
constexpr auto kSecret = "secret of a simulated job";
constexpr auto kHost = "127.0.0.1";

// Ranks that get the list of all at the same time: it is long, and here all ranks share the memory of one machine.
constexpr int kReaders = 64;

struct Options {
  int ranks = 2000;
  std::string store = "own";
  std::string exchange = "list";
  int decode_every = 1;
  std::chrono::seconds limit{120};
};

comm::StorePtr serve_c10d() {
  c10d::TCPStoreOptions options;  // since libtorch 2.4 its server uses libuv
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  return c10::make_intrusive<c10d::TCPStore>(kHost, options);
}

std::uint16_t port_of(c10d::Store& store) {
  if (auto* own = dynamic_cast<comm::OwnStore*>(&store)) return own->port();
  return dynamic_cast<c10d::TCPStore&>(store).getPort();
}

// Until this process is killed.
void serve(const Options& options, const bench::ReportPort& report) {
  const auto store = options.store == "own"
                         ? comm::StorePtr(comm::host_own_store({kHost, 0, {kSecret, nullptr}}, {kHost}, options.limit))
                         : serve_c10d();
  report(port_of(*store));
  for (;;) ::pause();
}

// How many ranks may get the list now.
class Turns {
 public:
  void take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return free_ > 0; });
    --free_;
  }
  void give() {
    {
      const std::lock_guard lock(mutex_);
      ++free_;
    }
    changed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int free_ = kReaders;
};

// The store of one rank. When the rendezvous has an outcome, the rank gets it in its turn. A rank that does not decode
// it takes it for the end of the rendezvous.
class RanksStore final : public c10d::PrefixStore {
 public:
  RanksStore(comm::StorePtr store, Turns& turns, bool decodes)
      : PrefixStore("", std::move(store)), turns_(turns), decodes_(decodes) {}
  ~RanksStore() override {
    if (has_turn_) turns_.give();
  }
  RanksStore(const RanksStore&) = delete;
  RanksStore& operator=(const RanksStore&) = delete;

  using PrefixStore::wait;
  void wait(const std::vector<std::string>& keys, const milliseconds& timeout) override {
    PrefixStore::wait(keys, timeout);
    if (has_turn_ || keys != std::vector<std::string>{comm::kOutcomeKey}) return;
    turns_.take();
    has_turn_ = true;
  }
  std::vector<std::uint8_t> compareSet(const std::string& key, const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& desired) override {
    auto value = PrefixStore::compareSet(key, expected, desired);
    if (!has_turn_ || key != comm::kOutcomeKey) return value;
    list_bytes_ = value.size();
    return decodes_ ? value : comm::to_bytes("closed");
  }

  std::size_t list_bytes() const { return list_bytes_; }

 private:
  Turns& turns_;
  const bool decodes_;
  bool has_turn_ = false;
  std::size_t list_bytes_ = 0;
};

// The connection of a rank: Lockstep's as a rank under a launcher makes it, c10d's as c10d makes it.
comm::StorePtr connect(const World& world, const Options& options) {
  if (options.store == "own") return comm::reach_tcp_store(world, kHost, world.master_port, options.limit);
  c10d::TCPStoreOptions client;
  client.port = world.master_port;
  client.waitWorkers = false;
  client.timeout = options.limit;
  return c10::make_intrusive<c10d::TCPStore>(kHost, client);
}

// What a rank does before its first collective: it gives its identity, and gets those of all. Returns how many it got.
int exchange_list(const World& world, const Options& options, const comm::StorePtr& store, Turns& turns) {
  const bool decodes = world.rank % options.decode_every == 0;
  const auto own = c10::make_intrusive<RanksStore>(store, turns, decodes);
  const auto ranks = comm::meet(*own, comm::this_rank(world, kHost), world.size, options.limit, [] {});
  if (ranks) return static_cast<int>(ranks->size());
  return !decodes && own->list_bytes() > static_cast<std::size_t>(world.size) ? world.size : 0;
}

// What init_process_group of torch.distributed does: each rank counts itself, which also gives it a number here, and
// waits for the last one. Returns how many there are.
int exchange_number(const World& world, c10d::Store& store, milliseconds limit) {
  if (store.add("count", 1) == world.size) store.set("all", comm::to_bytes("1"));
  store.wait({"all"}, limit);
  return world.size;
}

struct Outcome {
  std::mutex mutex;
  int met = 0;
  std::string first_error;
  std::vector<comm::StorePtr> connections;  ///< kept for traffic_with()
};

void meet_as(const World& world, const Options& options, Turns& turns, Outcome& outcome) {
  std::string error;
  int seen = 0;
  comm::StorePtr store;
  try {
    store = connect(world, options);
    seen = options.exchange == "list" ? exchange_list(world, options, store, turns)
                                      : exchange_number(world, *store, options.limit);
  } catch (const std::exception& failure) {
    error = failure.what();
  }
  const std::lock_guard lock(outcome.mutex);
  if (seen == world.size) ++outcome.met;
  if (outcome.first_error.empty()) outcome.first_error = error;
  outcome.connections.push_back(std::move(store));
}

void use_small_stacks() {
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return;
  ::pthread_attr_setstacksize(&attributes, std::size_t{256} << 10);
  ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
}

World world_at(std::uint16_t port, int size) {
  World world;
  world.size = size;
  world.rendezvous = Rendezvous::tcp;
  world.master_addr = kHost;
  world.master_port = port;
  world.store_is_external = true;
  world.evidence = fmt::format("LOCKSTEP_STORE={}:{}", kHost, port);
  world.host = "simulated";
  return world;
}

int measure(const Options& options) {
  const int descriptors = bench::allow_many_descriptors();  // a rank needs one here, and one in the service
  if (descriptors < options.ranks + 100) {
    throw std::runtime_error(fmt::format("{} connections need a higher limit of open files than {} (ulimit -Hn)",
                                         options.ranks, descriptors));
  }
  const auto service = bench::start_service([&](const bench::ReportPort& report) { serve(options, report); });
  const double empty_mb = bench::memory_mb(service.pid, "VmRSS:");
  const double empty_cpu = bench::cpu_seconds(service.pid);
  use_small_stacks();

  World world = world_at(service.port, options.ranks);
  Turns turns;
  Outcome outcome;
  std::vector<std::thread> threads;
  const auto start = Clock::now();
  for (int rank = 0; rank < options.ranks; ++rank) {
    world.rank = world.local_rank = rank;
    threads.emplace_back([&, world] { meet_as(world, options, turns, outcome); });
  }
  for (std::thread& thread : threads) thread.join();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const auto traffic = bench::traffic_with(service.port, descriptors);
  const nlohmann::ordered_json result = {{"ranks", options.ranks},
                                         {"store", options.store},
                                         {"exchange", options.exchange},
                                         {"met", outcome.met},
                                         {"seconds", seconds},
                                         {"service_cpu_s", bench::cpu_seconds(service.pid) - empty_cpu},
                                         {"service_peak_mb", bench::memory_mb(service.pid, "VmHWM:")},
                                         {"service_grown_mb", bench::memory_mb(service.pid, "VmHWM:") - empty_mb},
                                         {"connections", traffic.connections},
                                         {"mb_to_service", static_cast<double>(traffic.bytes_to_service) / 1e6},
                                         {"mb_from_service", static_cast<double>(traffic.bytes_from_service) / 1e6},
                                         {"libtorch", TORCH_VERSION},
                                         {"error", outcome.first_error}};
  fmt::print("{}\n", result.dump());
  bench::end_service(service);
  return outcome.met == options.ranks ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  Options options;
  CLI::App app("Times the rendezvous of many simulated ranks over loopback");
  app.add_option("--ranks", options.ranks)->check(CLI::Range(2, 100000))->capture_default_str();
  app.add_option("--store", options.store, "Lockstep's or c10d's")
      ->check(CLI::IsMember({"own", "c10d"}))
      ->capture_default_str();
  app.add_option("--exchange", options.exchange,
                 "list: each rank gets the identities of all, as Lockstep's ranks do; number: each rank counts itself "
                 "and waits for all, as in init_process_group")
      ->check(CLI::IsMember({"list", "number"}))
      ->capture_default_str();
  app.add_option(
         "--decode-every", options.decode_every,
         "Of so many ranks one decodes the list that it got: 1: all. Ranks of a real job decode it on their own "
         "cores")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  int limit_s = 120;
  app.add_option("--limit", limit_s, "Seconds after which it has failed")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  options.limit = std::chrono::seconds(limit_s);
  ::setenv("LOCKSTEP_STORE_SECRET", kSecret, 1);
  // c10d looks up the name of each peer's address: without this it measures the name server.
  ::__nss_configure_lookup("hosts", "files");
  return measure(options);
} catch (const std::exception& error) {
  std::fprintf(stderr, "rendezvous: %s\n", error.what());
  return 1;
}
