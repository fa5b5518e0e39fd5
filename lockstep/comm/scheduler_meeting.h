// Where a scheduler says which rank this is.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/comm/group.h>
#include <lockstep/scheduler/seat.h>

#include <memory>

namespace lockstep::detail {

struct Attendance {
  World world;
  std::unique_ptr<scheduler::Seat> seat;  ///< nullptr without a scheduler
};

/// With Meeting::scheduler, the world with its rank, once all workers are there; any other world as it is. Errors:
/// those of find_cluster(), of its files, and of Seat.
Attendance meet_scheduler(const World& world, const GroupOptions& options, const Environment& environment);

}  // namespace lockstep::detail
