// How long many ranks take to meet through a store on this machine: every simulated rank is a thread with a connection
// of its own that does what a rank does before its first collective. Prints one JSON object.
#include <lockstep/comm/meet/rendezvous.h>
#include <lockstep/comm/meet/stores.h>

#include <sys/resource.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace comm = lockstep::detail;
using lockstep::Rendezvous;
using lockstep::World;
using Clock = std::chrono::steady_clock;

struct Outcome {
  std::mutex mutex;
  int met = 0;
  std::string first_error;
};

void meet_as(const World& world, c10d::Store* store_of_rank_0, std::chrono::milliseconds limit, Outcome& outcome) {
  std::string error;
  std::size_t seen = 0;
  try {
    const auto meet_at = [&](c10d::Store& store) {
      const auto ranks = comm::meet(store, comm::this_rank(world, "127.0.0.1"), world.size, limit, [] {});
      return ranks ? ranks->size() : 0;
    };
    seen = store_of_rank_0 != nullptr ? meet_at(*store_of_rank_0) : meet_at(*comm::open_store(world, limit).store);
  } catch (const std::exception& failure) {
    error = failure.what();
  }
  const std::lock_guard lock(outcome.mutex);
  if (seen == static_cast<std::size_t>(world.size)) ++outcome.met;
  if (outcome.first_error.empty()) outcome.first_error = error;
}

// A connection is a descriptor on either side.
void allow_many_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int main(int argc, char** argv) try {
  int ranks = 2000;
  int limit_s = 120;
  CLI::App app("Times the rendezvous of many simulated ranks over loopback");
  app.add_option("--ranks", ranks)->check(CLI::Range(2, 20000))->capture_default_str();
  app.add_option("--limit", limit_s, "Seconds after which it has failed")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  allow_many_descriptors();

  World world;
  world.size = ranks;
  world.rendezvous = Rendezvous::tcp;
  world.master_addr = "127.0.0.1";
  world.host = "simulated";
  const auto limit = std::chrono::seconds(limit_s);
  const auto hosted = comm::host_own_store({world.master_addr, 0}, {world.master_addr}, limit);
  world.master_port = hosted->port();
  c10d::PrefixStore store_of_rank_0(world.store_prefix + "/lockstep/rendezvous_1", hosted);

  Outcome outcome;
  std::vector<std::thread> threads;
  const auto start = Clock::now();
  for (int rank = 0; rank < ranks; ++rank) {
    world.rank = world.local_rank = rank;
    threads.emplace_back(meet_as, world, rank == 0 ? &store_of_rank_0 : nullptr, limit, std::ref(outcome));
  }
  for (std::thread& thread : threads) thread.join();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const nlohmann::json result = {
      {"ranks", ranks}, {"met", outcome.met}, {"seconds", seconds}, {"error", outcome.first_error}};
  std::puts(result.dump().c_str());
  return outcome.met == ranks ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "rendezvous: %s\n", error.what());
  return 1;
}
