// Where the job of a chaos run runs: on two hosts where there can be two, with its checkpoints on a disk of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "chaos/disk.h"
#include "chaos/order.h"
#include "cli/supervised_job.h"
#include "cli/two_nodes.h"

namespace lockstep::test {

class Scene {
 public:
  /// Two hosts are two network namespaces and a cable. One machine alone with LOCKSTEP_BACKEND=shm.
  explicit Scene(const Order& order);

  /// Why there are not two hosts; empty when there are.
  const std::string& obstacle() const { return obstacle_; }

  /// A job of so many epochs, not started yet. The first half of the workers and the scheduler are on the first host.
  std::unique_ptr<SupervisedJob> job(const Workbench& bench, std::int64_t epochs, const std::filesystem::path& disk,
                                     const Environment& more) const;

 private:
  Order order_;
  std::string obstacle_;
  std::unique_ptr<TwoHosts> hosts_;
};

}  // namespace lockstep::test
