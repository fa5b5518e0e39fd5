// The doctor on every rank of a job: exchanges facts through the store, tests the links between hosts, and concludes;
// and the automatic diagnosis of a start-up that takes too long.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/doctor/checks.h>
#include <lockstep/world/world.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::doctor {

struct FactsRequest {
  World world;                                 ///< of this rank
  Environment environment;                     ///< of this process
  std::string way_in;                          ///< how it was started, as text
  std::vector<std::filesystem::path> files{};  ///< files that must be the same on all ranks
  std::chrono::milliseconds wait{30'000};      ///< how long ranks wait for each other at each step
  std::stop_token stop{};                      ///< the result is no longer needed: return soon, with any value
};

/// Collective over the job of `world`, under a key prefix of the store that later groups do not use. No rank may have
/// opened the store yet. Reports its findings, including unreachable stores and absent ranks; its exceptions are not
/// about the health of the job. Takes at most a few times `wait`.
Examination examine_job(const FactsRequest& request);

/// The same during a start-up of this rank that continues meanwhile and may succeed: connects to its store at
/// host:port, or in the file of `world`. One rank of each host takes part, including rank 0. Ranks that have not
/// registered in the store are absent; other ranks that do not answer are left out. An empty host: the store is not
/// known yet. `found`: the start-up has reached its rendezvous there.
Examination examine_job_beside_start(const FactsRequest& request, const std::string& host, std::uint16_t port,
                                     bool found);

// The facts that this rank can collect before the rendezvous (own_facts.cpp).

/// Whether this process will still open the rendezvous port, where it is responsible for this. `no`: it has already
/// opened the port.
enum class OpensPort { yes, no };

/// Collects the facts of this machine. Problems of the machine become facts, not exceptions.
Facts own_facts(const FactsRequest& request, OpensPort opens_port);

/// Adds the CUDA devices that libtorch finds. Only in a process that starts no others: after this query a process
/// cannot fork.
void ask_for_devices(Facts& facts);

/// For a rendezvous through MPI, where ranks receive the store's address only at that time: offers the address from
/// which this host reaches the store, unless a variable names another one.
void offer_route_to_store(Facts& facts, const World& world, const std::string& host, std::uint16_t port);

/// The host of the rendezvous; empty where it has none.
std::string master_of(const World& world);

/// Exists during the rendezvous. After 20 s (LOCKSTEP_DOCTOR_AFTER_S; 0: never) a thread looks for the reason, with its
/// own connection to the store, and logs its findings once: on rank 0, or where rank 0 cannot be reached, on one rank
/// of the host; the other ranks have no such thread. It does not delay the rendezvous. The destructor ends the thread;
/// this takes a short time, and only while the thread works.
class StartWatch {
 public:
  /// Error(environment) for a variable that breaks its rule.
  StartWatch(const World& world, const Environment& environment);
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

  /// The store's address, for worlds without it (Rendezvous::mpi); the start-up has reached its rendezvous there.
  void found_store(const std::string& host, std::uint16_t port);

 private:
  void watch(const std::stop_token& stop);
  void examine_job(const std::stop_token& stop);

  World world_;
  Environment environment_;
  std::chrono::milliseconds after_;
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::string store_host_;
  std::uint16_t store_port_ = 0;
  bool found_ = false;
  std::jthread thread_;  // last: it uses the other members
};

}  // namespace lockstep::doctor
