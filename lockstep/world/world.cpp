// detect_world(): the world of a process that is one rank, and its description in words.
#include <lockstep/base/error.h>
#include <lockstep/world/start.h>

#include <fmt/format.h>

namespace lockstep {
namespace {

// The world of a process that is one rank. Error(environment) when the process would have to start several ranks.
World only_rank(Start start) {
  if (start.ranks == 1) return std::move(start.world);
  fail(ErrorKind::environment, "world",
       "{} ({}) starts one process for {} ranks; start them with 'lockstep run --nproc_per_node {}', or use 'lockstep "
       "train', which starts them itself",
       start.world.launcher, start.world.evidence, start.ranks, start.ranks);
}

}  // namespace

World detect_world(const Environment& environment, std::string_view launcher) {
  return only_rank(detect_start(environment, {.launcher = std::string(launcher)}));
}

World detect_world(std::string_view launcher) { return only_rank(detect_start({.launcher = std::string(launcher)})); }

World detect_world(const NodeList& nodes) { return only_rank(detect_start({.nodes = nodes})); }

std::string describe(const World& world) {
  const std::string host = world.host.empty() ? "" : " on host " + world.host;
  const std::string start = world.launcher == "none" ? "started without a launcher" : "started by " + world.launcher;
  const std::string device = world.device ? fmt::format(", device {}", *world.device) : "";
  const std::string evidence = world.evidence.empty() ? "" : " (" + world.evidence + ")";
  if (world.rank < 0) return fmt::format("a worker of {}{}, {}{}", world.size, host, start, evidence);
  const std::string local_size = world.local_size > 0 ? fmt::to_string(world.local_size) : "unknown";
  const std::string local =
      world.local_rank < 0 ? "local rank unknown" : fmt::format("local {} of {}", world.local_rank, local_size);
  return fmt::format("rank {} of {} ({}{}){}, {}{}", world.rank, world.size, local, device, host, start, evidence);
}

}  // namespace lockstep
