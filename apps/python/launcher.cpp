// Translation of the detected world into PyTorch's variables.
#include <apps/python/launcher.h>

#include <lockstep/world/world.h>

#include <fmt/format.h>
#include <unistd.h>

#include <string_view>

namespace lockstep::python {
namespace {

/// Ranks of one mpirun on one host have the same parent process, and two of them at a time have not. Below the
/// ephemeral ports of Linux, as the ports of Slurm's steps.
int port_of_parent() { return 20480 + ::getppid() % 8192; }

}  // namespace

Environment variables_of_launcher(const Environment& environment) {
  for (const std::string_view name : {"RANK", "WORLD_SIZE"}) {
    if (find(environment, name)) return {};
  }
  const auto world = detect_world(environment);
  if (world.launcher == "none") return {};
  Environment variables{{"RANK", fmt::to_string(world.rank)}, {"WORLD_SIZE", fmt::to_string(world.size)}};
  if (world.local_size > 0) {
    variables.emplace("LOCAL_RANK", fmt::to_string(world.local_rank));
    variables.emplace("LOCAL_WORLD_SIZE", fmt::to_string(world.local_size));
  }
  if (world.rendezvous == Rendezvous::tcp) {
    variables.emplace("MASTER_ADDR", world.master_addr);
    variables.emplace("MASTER_PORT", fmt::to_string(world.master_port));
  } else if (world.local_size == world.size) {
    variables.emplace("MASTER_ADDR", "127.0.0.1");
    variables.emplace("MASTER_PORT", fmt::to_string(port_of_parent()));
  }
  return variables;
}

}  // namespace lockstep::python
