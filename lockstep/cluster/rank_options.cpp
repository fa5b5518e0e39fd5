#include <lockstep/cluster/log_folder.h>
#include <lockstep/cluster/rank_options.h>

#include <utility>

namespace lockstep::cluster {
namespace {

ChildOptions prepare(const LaunchOptions& options, const Job& job, int local_rank, Environment environment) {
  ChildOptions child;
  child.out = child.err = ChildStream::pipe;
  child.environment = std::move(environment);
  child.arguments = command_of_rank(options.program, local_rank, options.environment);
  const auto folder = folder_of_rank(job, local_rank);
  if (!folder.empty()) make_empty_folder(folder);
  return child;
}

}  // namespace

ChildOptions prepare_rank(const LaunchOptions& options, const Job& job, int local_rank) {
  return prepare(options, job, local_rank, environment_of_rank(options.environment, job, local_rank));
}

ChildOptions prepare_replacement(const LaunchOptions& options, const Job& job, int local_rank) {
  return prepare(options, job, local_rank, environment_of_replacement(options.environment, job, local_rank));
}

std::vector<ChildOptions> prepare_ranks(const LaunchOptions& options, const Job& job) {
  std::vector<ChildOptions> ranks;
  for (int local_rank = 0; local_rank < job.ranks; ++local_rank) {
    ranks.push_back(prepare_rank(options, job, local_rank));
  }
  return ranks;
}

}  // namespace lockstep::cluster
