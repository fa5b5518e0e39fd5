// The connection of a run's group from the configuration, with checks of world and devices, and the run's plan; and the
// recovery loop of a rank: run, keep state after a loss of ranks, rejoin, agree on a state in memory, run again.
#include <lockstep/base/available_memory.h>
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/comm/backends.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/modes/auto_mode.h>
#include <lockstep/train/modes/strategies.h>
#include <lockstep/train/resources/runtime.h>
#include <lockstep/train/run_group.h>
#include <lockstep/train/served/served_tables.h>
#include <lockstep/train/server_role.h>

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <utility>

namespace lockstep::train {
namespace {

GroupOptions run_group_options(const ResolvedRun& run) {
  const ParallelConfig& config = run.parallel;
  const auto milliseconds = [](double seconds) { return std::chrono::milliseconds(std::llround(seconds * 1e3)); };
  GroupOptions options;
  options.backend = config.backend;
  options.device = run.system.device;
  options.start_timeout = milliseconds(config.start_timeout_s);
  options.timeout = milliseconds(config.timeout_s);
  options.check_collectives = config.check_collectives;
  options.encrypt = config.encrypt;
  options.cluster = cluster_of(run);
  options.rejoins = true;
  return options;
}

// Devices are queried only if they are needed: a process cannot fork after a query.
void require_devices(const ResolvedRun& config, const World& world) {
  const auto backend = lockstep::detail::with_environment(run_group_options(config), current_environment()).backend;
  const bool may_share = lockstep::detail::may_share_devices(backend);
  if (config.system.device.starts_with("cuda")) {
    require_device(config.system.device, world, cuda_devices(), may_share);
  } else if (lockstep::detail::is_for_cuda(backend)) {
    require_device_for(backend, backend == config.parallel.backend ? "parallel.backend" : "LOCKSTEP_BACKEND", world,
                       cuda_devices(), may_share);
  }
}

}  // namespace

void require_world_fits(const ResolvedRun& config, const World& world) {
  require_mode_of_servers(config);
  if (world.size == 1) return;
  if (config.parallel.backend == "self") {
    fail(ErrorKind::config, "parallel.backend", "self is for one process, but this is {}; use auto", describe(world));
  }
  if (config.parallel.mode != "stand_alone") return;
  fail(ErrorKind::config, "parallel.mode",
       "stand_alone is for one process, but this is {}; start one, or use "
       "parallel.mode=data_parallel, semi_auto or auto",
       describe(world));
}

ClusterOptions cluster_of(const ResolvedRun& config) {
  auto options = config.cluster;
  options.with_servers = is_served_mode(config.parallel);
  return options;
}

Group connect_run(const ResolvedRun& config, const World& world) {
  require_world_fits(config, world);
  require_devices(config, world);
  require_address_space();
  return connect(world, run_group_options(config));
}

bool has_console(const ResolvedRun& config, const World& world) {
  return world.rank == 0 || config.callbacks.console_ranks == "all";
}

ResolvedRun planned(const ResolvedRun& config, const Program& program, const Group& group, Console& console) {
  if (config.parallel.strategy_ckpt_load_file) {
    auto loaded = with_strategy_file(config, program, group);
    tell(console, fmt::format("{}: parallel.mode {}", *config.parallel.strategy_ckpt_load_file, loaded.parallel.mode));
    return loaded;
  }
  if (!is_auto_mode(config.parallel)) return with_checked_strategies(config, program, group.size());
  auto run = resolve_auto(config, program, group);
  tell(console, run.text);
  for (const auto& remark : run.remarks) tell(console, remark);
  return std::move(run.config);
}

void abort_and_rethrow(Group& group) {
  try {
    throw;
  } catch (const c10::Error& error) {
    group.abort(error.what_without_backtrace());
    throw;
  } catch (const std::exception& error) {
    group.abort(error.what());
    throw;
  }
}

std::optional<ResumePoint> agree_on_state(Kept& kept, const Group& group, Console& console) {
  auto agreed = state::agree_on_state(kept.state, group);
  if (!agreed.point && !agreed.reason.empty()) {
    const auto words = fmt::format("{}, the newest checkpoint is used instead", agreed.reason);
    log_warning("{}", words);
    tell(console, words);
  }
  return std::move(agreed.point);
}

RunResult run_with_recovery(std::optional<Group>& group, const std::function<RunResult(const Group&, Kept&)>& part) {
  Kept kept;
  for (;;) {
    std::string reason;
    try {
      const LossWatch watch(*group);
      return part(*group, kept);
    } catch (const Error& error) {
      if (!is_loss(error)) abort_and_rethrow(*group);
      reason = error.what();
    } catch (...) {
      abort_and_rethrow(*group);
    }
    kept.times.lose(*group);
    // The signal ends this process at once: while the rank waits for other ranks, which may never join, no code would
    // read the signal.
    if (kept.signal) std::raise(*std::exchange(kept.signal, std::nullopt));
    log_warning("ranks were lost; this one keeps its state and waits for those that take their places: {}", reason);
    Group lost = std::move(*group);
    group.reset();
    group = rejoin(std::move(lost), reason);
    if (!group && kept.result) return *kept.result;
    if (!group) fail(ErrorKind::peer_lost, "train", "the job was completed without this rank ({})", reason);
  }
}

}  // namespace lockstep::train
