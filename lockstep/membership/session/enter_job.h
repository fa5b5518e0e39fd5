// Entry of a process into its job, where a service decides on the job's members.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/membership/member_session.h>
#include <lockstep/world/world.h>

#include <chrono>
#include <memory>

namespace lockstep {

struct EnterOptions {
  ClusterOptions cluster{};                 ///< the scheduler's settings, where the environment does not set them
  std::chrono::milliseconds start_timeout;  ///< until all members have registered
  bool rejoins = false;                     ///< the program can continue with a member that replaces a lost one
};

struct EnteredWorld {
  World world;
  std::shared_ptr<MemberSession> session;  ///< nullptr where the launcher set the ranks
};

/// Enters the job where a service decides on its members, and returns the world with this process's rank once all
/// members have registered: with Rendezvous::scheduler, or with the service of a launcher (World::job_service) where
/// the program rejoins. Any other world is returned unchanged. Errors: those of find_cluster(), of the files that it
/// names, and of membership::WorkerSession.
EnteredWorld enter_job(const World& world, const EnterOptions& options, const Environment& environment);

/// `world` with the rank, size and keys of `place`.
World at_place(World world, const MemberPlace& place);

}  // namespace lockstep
