// The automatic diagnosis of a start-up that takes too long.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/world/world.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

namespace lockstep::doctor {

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
