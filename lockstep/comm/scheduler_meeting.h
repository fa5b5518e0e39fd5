// Where a scheduler says which rank this is.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/comm/group.h>
#include <lockstep/scheduler/messages.h>
#include <lockstep/scheduler/seat.h>

#include <memory>

namespace lockstep::detail {

struct Attendance {
  World world;
  std::shared_ptr<scheduler::Seat> seat;  ///< nullptr without a scheduler
};

/// With Meeting::scheduler, the world with its rank, once all workers are there; any other world as it is. Errors:
/// those of find_cluster(), of its files, and of Seat.
Attendance meet_scheduler(const World& world, const GroupOptions& options, const Environment& environment);

/// `world` with that rank, which meets the others of its generation.
World at_place(World world, const scheduler::Seated& place);

}  // namespace lockstep::detail
