// Breaks a job at random, as a seed says.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <random>
#include <string>

#include "chaos/disk.h"
#include "chaos/order.h"
#include "cli/supervised_job.h"

namespace lockstep::test {

/// What is broken, in which order and how long after each other follows from the seed alone; when in a step that hits
/// is left to the machine. Some strikes last, and others hit meanwhile.
class Strikes {
 public:
  using Clock = std::chrono::steady_clock;

  /// `has_hosts`: the job is on TwoHosts.
  Strikes(const Order& order, SupervisedJob& job, Disk& disk, bool has_hosts);

  /// For as long as was ordered, and then lets the job come to its end; true when it ended well.
  bool wreak();

  int count() const { return count_; }

 private:
  struct Lasting {
    Clock::time_point until;
    std::function<void()> end;
  };

  int pick(int below) { return static_cast<int>(random_() % static_cast<std::uint64_t>(below)); }
  std::chrono::milliseconds pick_time(int least_ms, int most_ms);
  bool rest(std::chrono::milliseconds time);
  void say(const std::string& what);
  void last(const std::string& what, std::chrono::milliseconds time, const std::function<void()>& begin,
            std::function<void()> end);
  void end_what_is_over(Clock::time_point now);

  void strike();
  void kill(int worker);
  void kill_all();
  void stop_worker();
  void stop_scheduler();
  void part_hosts();
  void fill_disk();
  void slow_disk();

  SupervisedJob& job_;
  Disk& disk_;
  bool has_hosts_;
  std::mt19937_64 random_;
  std::chrono::seconds time_;
  Clock::time_point start_ = Clock::now();
  std::map<std::string, Lasting> lasting_;
  int count_ = 0;
};

}  // namespace lockstep::test
