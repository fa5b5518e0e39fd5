// The rendezvous through a scheduler, which assigns this process its rank.
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

/// With Meeting::scheduler, the world with its rank, once all workers have registered; any other world as is. Errors:
/// those of find_cluster(), of its files, and of Seat.
Attendance meet_scheduler(const World& world, const GroupOptions& options, const Environment& environment);

/// `world` with the rank and size of `place`, for the rendezvous of its generation.
World at_place(World world, const scheduler::Seated& place);

}  // namespace lockstep::detail
