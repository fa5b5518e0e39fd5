// Collectives over MPI before a store exists: they carry the address of the store that rank 0 opened.
#pragma once

#include <lockstep/world/world.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace lockstep::detail::mpi {

struct MpiEndpoint {
  std::string host;
  std::uint16_t port = 0;
};

/// Error(environment) unless MPI's rank and size of this process equal those of its world. They differ under the
/// launcher of another MPI than the one of this build, because each process is then a separate job. Starts MPI if
/// needed.
void require_same(const World& world);

/// Collective over MPI_COMM_WORLD: whether all of it runs on one machine. Starts MPI if needed.
bool all_on_one_host(std::chrono::milliseconds timeout);

/// Collective over MPI_COMM_WORLD: rank 0's endpoint. Error(timeout) when not all ranks take part in time.
MpiEndpoint broadcast_from_rank_0(const MpiEndpoint& endpoint, std::chrono::milliseconds timeout);

}  // namespace lockstep::detail::mpi
