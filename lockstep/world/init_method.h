// The init method: a rendezvous given by the program, with or without rank and world size.
#pragma once

#include <lockstep/world/world.h>

#include <optional>
#include <string>

namespace lockstep {

/// The arguments of torch.distributed.init_process_group with these names: the rendezvous, and this process's rank.
struct InitMethod {
  std::string url = "env://";  ///< or tcp://host:port, file:///path; with ?rank=R&world_size=N behind it or without
  std::optional<int> rank{};   ///< of processes, not of nodes; not beside ?rank=
  std::optional<int> world_size{};
};

/// The world of a process that is given its rendezvous. Without a rank and world size, here or in the URL, a
/// launcher's variables give them. Error(invalid_argument) when only one of them is given, and when they are given
/// in both ways; else as detect_world().
World detect_world(const InitMethod& method);

namespace detail {

/// As detect_world(InitMethod) for an environment; leaves the host empty.
World world_of_init_method(const InitMethod& method, Environment environment);

}  // namespace detail
}  // namespace lockstep
