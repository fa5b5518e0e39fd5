#include <lockstep/cluster/log_folder.h>
#include <lockstep/cluster/rank_options.h>

namespace lockstep::cluster {

ChildOptions prepare_rank(const LaunchOptions& options, const Job& job, int local_rank) {
  ChildOptions child;
  child.out = child.err = ChildStream::pipe;
  child.environment = environment_of_rank(options.environment, job, local_rank);
  child.arguments = command_of_rank(options.program, local_rank, options.environment);
  const auto folder = folder_of_rank(job, local_rank);
  if (!folder.empty()) make_empty_folder(folder);
  return child;
}

std::vector<ChildOptions> prepare_ranks(const LaunchOptions& options, const Job& job) {
  std::vector<ChildOptions> ranks;
  for (int local_rank = 0; local_rank < job.ranks; ++local_rank) {
    ranks.push_back(prepare_rank(options, job, local_rank));
  }
  return ranks;
}

}  // namespace lockstep::cluster
