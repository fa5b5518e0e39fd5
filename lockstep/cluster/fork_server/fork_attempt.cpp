#include <lockstep/base/error.h>
#include <lockstep/cluster/fork_server/fork_attempt.h>
#include <lockstep/cluster/fork_server/obstacle.h>
#include <lockstep/cluster/rank_options.h>

#include <stdio.h>

#include <utility>

namespace lockstep::cluster {

ForkAttempt::ForkAttempt(const LaunchOptions& options) : obstacle_(obstacle_to_forking(options)) {
  if (obstacle_) return;
  try {
    server_.emplace(options);
  } catch (const Error& error) {
    obstacle_ = error.message();  // starting the ranks will say the same, if it was not bad luck
  }
}

bool ForkAttempt::ready(int stop_fd) {
  if (!obstacle_) obstacle_ = server_->await_obstacle(stop_fd);
  if (obstacle_) server_.reset();
  return !obstacle_;
}

std::optional<ForkedRanks> ForkAttempt::fork(const LaunchOptions& options, const Job& job, int stop_fd) {
  return fork(options, prepare_ranks(options, job), stop_fd);
}

std::optional<ForkedRanks> ForkAttempt::fork(const LaunchOptions& options, const std::vector<ChildOptions>& ranks,
                                             int stop_fd) {
  bool unexpected = options.start_method == StartMethod::fork_server && !obstacle_;
  if (ready(stop_fd)) {
    try {
      return server_->fork(ranks);
    } catch (const Error& error) {
      obstacle_ = error.message();
      server_.reset();
      unexpected = true;
    }
  }
  if (unexpected) ::dprintf(options.err, "lockstep run: each rank loads its program itself: %s\n", obstacle_->c_str());
  return std::nullopt;
}

}  // namespace lockstep::cluster
