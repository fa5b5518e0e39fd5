#include <lockstep/base/error.h>
#include <lockstep/world/meeting_point.h>
#include <lockstep/world/mpi_meeting.h>
#include <lockstep/world/rank_variables.h>

#include <fmt/format.h>

namespace lockstep::detail {

void meet_under_mpi(const Environment& environment, World& world) {
  if (world.size == 1) return;
  if (meet_by_init_method(environment, world)) return;
  const auto address = find_master_addr(environment);
  const auto port = find_master_port(environment);
  if (address.has_value() != port.has_value()) {
    fail(ErrorKind::environment, "world",
         "{} is set but {} is not; set both to meet there, or unset {} to meet through MPI",
         address ? "MASTER_ADDR" : "MASTER_PORT", address ? "MASTER_PORT" : "MASTER_ADDR",
         address ? "MASTER_ADDR" : "MASTER_PORT");
  }
  if (!address) {
    world.meeting = Meeting::mpi;
    return;
  }
  world.meeting = Meeting::tcp;
  world.master_addr = *address;
  world.master_port = *port;
  add_evidence(world, "MASTER_ADDR", *address);
  add_evidence(world, "MASTER_PORT", fmt::to_string(*port));
}

}  // namespace lockstep::detail
