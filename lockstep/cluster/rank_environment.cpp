#include <lockstep/cluster/rank_environment.h>

#include <fmt/core.h>

namespace lockstep::cluster {

std::filesystem::path error_file_of(const Job& job, int local_rank) {
  return job.folder / fmt::format("rank.{}.error.json", local_rank);
}

bool limits_threads(const Environment& inherited, int ranks) {
  return ranks > 1 && !inherited.contains("OMP_NUM_THREADS");
}

Environment environment_of_rank(Environment inherited, const Job& job, int local_rank) {
  const std::string rank = std::to_string(local_rank);
  const std::string size = std::to_string(job.ranks);
  if (limits_threads(inherited, job.ranks)) inherited.try_emplace("OMP_NUM_THREADS", "1");

  const Environment of_rank = {
      {"RANK", rank},
      {"LOCAL_RANK", rank},
      {"GROUP_RANK", "0"},
      {"ROLE_RANK", rank},
      {"ROLE_NAME", "default"},
      {"WORLD_SIZE", size},
      {"LOCAL_WORLD_SIZE", size},
      {"GROUP_WORLD_SIZE", "1"},
      {"ROLE_WORLD_SIZE", size},
      {"MASTER_ADDR", job.master_addr},
      {"MASTER_PORT", std::to_string(job.master_port)},
      {"TORCHELASTIC_RESTART_COUNT", "0"},
      {"TORCHELASTIC_MAX_RESTARTS", "0"},
      {"TORCHELASTIC_RUN_ID", job.run_id},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
      {"TORCHELASTIC_ERROR_FILE", error_file_of(job, local_rank).string()},
  };
  for (const auto& [name, value] : of_rank) inherited[name] = value;

  // Through the launcher's pipe a rank cannot see that there is a terminal to draw a progress bar on.
  if (job.columns > 0) inherited.try_emplace("LOCKSTEP_TERMINAL_COLUMNS", std::to_string(job.columns));

  // Defaults that a user's own setting overrides. Python buffers what it writes to a pipe; torchrun passes -u for that.
  inherited.try_emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  inherited.try_emplace("PYTHONUNBUFFERED", "1");
  return inherited;
}

}  // namespace lockstep::cluster
