// The doctor on every rank of a job: exchanges facts through the store, tests the links between hosts, and concludes.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/doctor/checks.h>
#include <lockstep/world/world.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

namespace lockstep::doctor {

struct FactsRequest {
  World world;                                 ///< of this rank
  Environment environment;                     ///< of this process
  std::string way_in;                          ///< how it was started, in words
  std::vector<std::filesystem::path> files{};  ///< that must be the same on all ranks
  std::chrono::milliseconds wait{30'000};      ///< how long ranks wait for each other at each step
  std::stop_token stop{};                      ///< the result is not needed any more: return soon, with any value
};

/// Collective over the job of `world`, under a key prefix of the store that later groups do not use; no rank may have
/// opened the store yet. Reports its findings, including unreachable stores and absent ranks; its exceptions are
/// not about the job's health. Takes a few times `wait` at most.
Examination examine_job(const FactsRequest& request);

/// The same during a start-up of this rank that goes on meanwhile and may succeed: connects to its store at host:port,
/// or in the file of `world`. One rank of each host takes part, rank 0 among them; ranks that have not announced
/// themselves in the store are absent, others that do not answer are left out. An empty host: the store is not known
/// yet. `found`: the start-up has reached its rendezvous there.
Examination examine_job_beside_start(const FactsRequest& request, const std::string& host, std::uint16_t port,
                                     bool found);

// The facts that this rank can collect before the rendezvous (own_facts.cpp).

/// Whether this process will still open the rendezvous port, where that is its task. `no`: it has opened the port
/// already.
enum class OpensPort { yes, no };

/// Collects the facts of this machine. Does not throw for problems of the machine: they are in the facts.
Facts own_facts(const FactsRequest& request, OpensPort opens_port);

/// Adds what libtorch finds of CUDA devices. Only in a process that starts no others: one that has asked cannot fork.
void ask_for_devices(Facts& facts);

/// For a rendezvous through MPI, in which ranks learn only then where the store is: offers the address from which this
/// host reaches it, unless a variable names another.
void offer_route_to_store(Facts& facts, const World& world, const std::string& host, std::uint16_t port);

/// The host of the rendezvous; empty where it has none.
std::string master_of(const World& world);

}  // namespace lockstep::doctor
