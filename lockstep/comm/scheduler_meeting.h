// The rendezvous through a scheduler, which assigns this process its rank.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/comm/group.h>
#include <lockstep/scheduler/messages.h>
#include <lockstep/scheduler/worker_session.h>

#include <memory>

namespace lockstep::detail {

struct RankedWorld {
  World world;
  std::shared_ptr<scheduler::WorkerSession> session;  ///< nullptr without a scheduler
};

/// With Meeting::scheduler, the world with its rank, once all workers have registered; the same with the service of a
/// launcher (World::job_service), where the program rejoins; any other world as is. Errors:
/// those of find_cluster(), of its files, and of WorkerSession.
RankedWorld meet_scheduler(const World& world, const GroupOptions& options, const Environment& environment);

/// `world` with the rank and size of `place`, for the rendezvous of its generation.
World at_place(World world, const scheduler::RankAssignment& place);

}  // namespace lockstep::detail
