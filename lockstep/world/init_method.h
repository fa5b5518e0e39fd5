// A process that is told where to meet the others, and perhaps which of them it is.
#pragma once

#include <lockstep/world/world.h>

#include <optional>
#include <string>

namespace lockstep {

/// What torch.distributed.init_process_group takes under these names: where the ranks meet, and which this one is.
struct InitMethod {
  std::string url = "env://";  ///< or tcp://host:port, file:///path; with ?rank=R&world_size=N behind it or without
  std::optional<int> rank{};   ///< of processes, not of nodes; not beside ?rank=
  std::optional<int> world_size{};
};

/// The world of a process that is told where to meet the others. Without a rank and world size, here or in the URL, a
/// launcher's variables say who it is. Error(invalid_argument) for half of rank and world size, and for both kinds of
/// them; else as detect_world().
World detect_world(const InitMethod& method);

namespace detail {

/// As detect_world(InitMethod) for an environment; leaves the host empty.
World world_of_init_method(const InitMethod& method, Environment environment);

}  // namespace detail
}  // namespace lockstep
