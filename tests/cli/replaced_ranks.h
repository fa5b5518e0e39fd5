// Runs of `lockstep run` with lost ranks that are replaced: the training, its processes, and the result without losses.
#pragma once

#include "cli/program.h"

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>

namespace lockstep::test {

/// What the launcher says of a replaced rank, before its number of process.
inline constexpr auto kReplaced = "the others keep running, and pid";

/// 24 steps with two ranks, 16 with three, 8 with four.
inline const Words kRun = {"data.batch_size=6", "train.epochs=8", "train.eval_every=1", "callbacks.metrics_every=1"};

/// kRun and `keys`.
Words keys_with(Words keys);

/// `lockstep run --nproc-per-node RANKS FLAGS PROGRAM`.
Words launched(int ranks, const Words& flags, const Words& program);

/// The hash of a run of so many ranks on one node that nothing happens to.
std::string hash_of_peace(int ranks, const Words& keys);

/// The log file of a rank.
std::string log_of(const Workbench& bench, int rank);

/// Whether rank 0 has written so many lines of metrics.
bool has_made_steps(const Workbench& bench, int steps);

/// The processes below a launcher that are ranks, by rank, as their own environments say.
std::map<int, pid_t> ranks_below(pid_t launcher);

/// Waits up to 90 s; false when it does not happen.
template <typename Condition>
[[nodiscard]] bool wait_until(const Condition& happens) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(90);
  while (std::chrono::steady_clock::now() < deadline) {
    if (happens()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace lockstep::test
