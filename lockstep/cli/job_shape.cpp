#include <lockstep/base/error.h>
#include <lockstep/cli/job_shape.h>
#include <lockstep/cli/refuse.h>
#include <lockstep/world/overrule.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace lockstep::cli {
namespace {

void check(const NodeFlags& flags) {
  const auto nodes = node_count_of(flags);
  if (flags.standalone && nodes.most > 1) refuse("--standalone is one node, and --nnodes is {}", flags.nnodes);
  const std::string& backend = flags.rdzv_backend;
  if (backend == "static" || backend == "c10d" || backend == "etcd") return;
  if (backend == "etcd-v2") {
    refuse("--rdzv_backend etcd-v2: version 2 of etcd's API is not spoken; version 3 is, as --rdzv_backend etcd");
  }
  fail(ErrorKind::unsupported, "run",
       "--rdzv_backend '{}' is not part of this version; there are static, c10d and etcd", backend);
}

/// RANK and WORLD_SIZE of a shell, in which nobody started several of these.
bool set_by_hand(const World& outer, const Environment& environment) {
  return outer.launcher == "pytorch" && !find(environment, "LOCAL_RANK") && !find(environment, "TORCHELASTIC_RUN_ID");
}

/// The launcher that started this process as one of several.
std::optional<World> outer_launcher(const Environment& environment) {
  for (const auto& name : launchers_here(environment)) {
    auto outer = detect_world(environment, name);
    if (outer.size > 1 && !set_by_hand(outer, environment)) return outer;
  }
  return std::nullopt;
}

}  // namespace

bool is_one_node(const NodeFlags& flags) {
  return flags.standalone || (flags.rdzv_backend == "static" && node_count_of(flags).most == 1);
}

bool needs_agent(const NodeFlags& flags) {
  if (!flags.nodes.empty()) return false;
  check(flags);
  return flags.max_restarts.value_or(0) != 0 || !is_one_node(flags);
}

std::optional<std::string> judge_outer_launcher(const NodeFlags& flags, const Environment& environment) {
  if (flags.standalone || !flags.nodes.empty() || !is_one_node(flags)) return std::nullopt;
  const auto outer = outer_launcher(environment);
  if (!outer) return std::nullopt;
  constexpr std::array<std::string_view, 3> kStartPrograms = {"open_mpi", "mpich", "slurm"};
  const bool refuses = std::ranges::find(kStartPrograms, outer->launcher) != kStartPrograms.end();
  auto what = fmt::format("this launcher is process {} of {} of {} ({}), and each of them starts a job of its own",
                          outer->rank, outer->size, outer->launcher, outer->evidence);
  if (!refuses) return what + ", because --nnodes is 1 (--standalone: it is meant so)";
  fail(ErrorKind::environment, "run",
       "{}. For one job start the program without 'lockstep run', or one launcher on each node with --nnodes {} (and "
       "--node_rank, --master_addr); where {} separate jobs are meant, say --standalone",
       what, outer->size, outer->size);
}

}  // namespace lockstep::cli
