#include <lockstep/base/error.h>
#include <lockstep/cli/fork_start.h>
#include <lockstep/cli/job_shape.h>
#include <lockstep/cli/launcher_line.h>
#include <lockstep/cli/programs.h>
#include <lockstep/cli/run_arguments.h>
#include <lockstep/cluster/exit_code.h>
#include <lockstep/cluster/fork_server/fork_attempt.h>
#include <lockstep/cluster/launch_ranks.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

namespace lockstep::cli {
namespace {

/// GPUs are libtorch's to count.
bool counts_gpus(const std::string& processes) { return processes == "gpu" || processes == "auto"; }

struct Job {
  cluster::LaunchOptions options;
  std::vector<std::string> remarks;
};

/// Throws whatever there is to say against the words, and for questions; nullopt for jobs of other kinds.
std::optional<Job> read_job(std::vector<std::string> words) {
  CLI::App app;
  const auto run = add_run_command(app, LaunchStyle::run);
  const auto launch = add_run_command(app, LaunchStyle::launch);
  const LaunchStyle style = words.front() == "run" ? LaunchStyle::run : LaunchStyle::launch;
  std::vector<std::string> program;
  prepare_launcher(app, words, program);
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  app.parse(std::move(words));
  const RunArguments& arguments = *(style == LaunchStyle::run ? run : launch).arguments;
  if (counts_gpus(arguments.processes) || needs_agent(arguments.nodes)) return std::nullopt;
  const Surroundings here = {{cluster::usable_cpus(), 0}, whole_program_beside()};
  auto options = launch_options_of(arguments, style, std::move(program), here);
  options.first_rank = first_rank_of(arguments.nodes, options.processes, options.environment);
  auto remarks = remarks_on(arguments, style, options, here);
  return Job{std::move(options), std::move(remarks)};
}

std::optional<Job> find_job(const std::vector<std::string>& words) {
  if (words.empty() || (words.front() != "run" && words.front() != "launch")) return std::nullopt;
  try {
    return read_job(words);
  } catch (const std::exception&) {
    return std::nullopt;  // the whole program finds the same, and says it
  }
}

}  // namespace

ForkStart start_by_forking(const std::vector<std::string>& words) {
  const auto found = find_job(words);
  if (!found) return {};
  const cluster::LaunchOptions& options = found->options;
  bool began = false;
  try {
    cluster::ForkAttempt attempt(options);
    if (!attempt.possible()) return {};
    if (!attempt.ready()) return {{}, options.start_method == cluster::StartMethod::automatic};
    tell(found->remarks);
    cluster::LaunchWays ways;
    ways.host = [&](int ranks, UniqueFd events) {
      return attempt.server().host_store(options.err, ranks, std::move(events));
    };
    ways.fork = [&](const std::vector<ChildOptions>& ranks) {
      if (began) return attempt.fork(options, ranks);  // one that takes a lost one's place, if need be without a fork
      auto forked = attempt.server().fork(ranks);
      began = true;
      return std::optional(std::move(forked));
    };
    const auto result = cluster::launch_ranks(options, ways);
    std::fputs(result.report.c_str(), stderr);
    return {result.exit_code};
  } catch (const std::exception& error) {
    if (!began) return {{}, options.start_method == cluster::StartMethod::automatic};
    return {cluster::end_with(error, error.what())};
  }
}

}  // namespace lockstep::cli
