// The small program `lockstep`: starts ranks if that needs no libtorch, and executes the whole program otherwise.
// Loading libtorch takes most of a second, which the ranks would wait for.
#include <lockstep/base/available_memory.h>
#include <lockstep/base/error.h>
#include <lockstep/cli/command.h>
#include <lockstep/cli/node_flags.h>
#include <lockstep/cli/programs.h>
#include <lockstep/cli/run_arguments.h>
#include <lockstep/cli/run_line.h>
#include <lockstep/cluster/failure.h>
#include <lockstep/cluster/fork_server/can_fork.h>
#include <lockstep/cluster/fork_server/fork_server.h>
#include <lockstep/cluster/launch_ranks.h>
#include <lockstep/cluster/live_page.h>
#include <lockstep/cluster/rank_services.h>
#include <lockstep/version.h>

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::cli {
namespace {

struct ForkStart {
  std::optional<int> exit_code{};  ///< of the job, or of an error; nullopt: the whole program must execute the command
  bool spawn = false;              ///< the whole program must not try to fork again
};

/// Only libtorch can count GPUs.
bool counts_gpus(const std::string& processes) { return processes == "gpu" || processes == "auto"; }

struct ParsedCommand {
  cluster::LaunchOptions options;
  std::vector<std::string> remarks;
};

/// Throws for errors in the arguments and for --help and the like; nullopt for jobs of other kinds.
std::optional<ParsedCommand> read_job(std::vector<std::string> words) {
  CLI::App app;
  const auto run = add_run_command(app, LaunchStyle::run);
  const auto launch = add_run_command(app, LaunchStyle::launch);
  const LaunchStyle style = words.front() == "run" ? LaunchStyle::run : LaunchStyle::launch;
  std::vector<std::string> program;
  prepare_launcher(app, words, program);
  std::reverse(words.begin(), words.end());  // CLI11 expects the reverse order
  app.parse(std::move(words));
  RunArguments& arguments = *(style == LaunchStyle::run ? run : launch).arguments;
  translate_arguments(arguments, current_environment());
  if (counts_gpus(arguments.processes) || needs_agent(arguments.nodes)) return std::nullopt;
  const Surroundings here = {{usable_cpus(), 0}, whole_program_beside()};
  auto options = launch_options_of(arguments, style, std::move(program), here);
  options.first_rank = first_rank_of(arguments.nodes, options.processes, options.environment);
  auto remarks = remarks_on(arguments, style, options, here);
  return ParsedCommand{std::move(options), std::move(remarks)};
}

std::optional<ParsedCommand> find_job(const std::vector<std::string>& words) {
  if (words.empty() || (words.front() != "run" && words.front() != "launch")) return std::nullopt;
  try {
    return read_job(words);
  } catch (const std::exception&) {
    return std::nullopt;  // the whole program has the same error, and reports it
  }
}

/// Starts the ranks without libtorch, for jobs on this node whose ranks can be forks of a fork server. `words` are the
/// arguments after "lockstep". All other cases (--help, errors, several nodes, programs of other kinds) are left to the
/// whole program: this function has no effect then.
ForkStart start_by_forking(const std::vector<std::string>& words) {
  const auto found = find_job(words);
  if (!found) return {};
  const cluster::LaunchOptions& options = found->options;
  bool began = false;
  try {
    cluster::ForkAttempt attempt(options);
    if (!attempt.possible() || cluster::may_need_c10d_store(options)) return {};
    if (!attempt.ready()) return {{}, options.start_method == cluster::StartMethod::automatic};
    tell(found->remarks);
    cluster::LaunchWays ways;
    std::optional<cluster::LockstepStoreHost> own_store;
    std::optional<cluster::JobService> service;
    // This process hosts the services that the ranks depend on, because a separate host process could be lost alone.
    ways.host = [&](int ranks, std::shared_ptr<cluster::SharedLosses> losses) {
      own_store.emplace();
      cluster::Hosted hosted{own_store->port(), own_store->address()};
      if (ranks > 0) hosted.service = service.emplace("127.0.0.1", ranks, std::move(losses)).address();
      return hosted;
    };
    ways.helpers = [&] { return attempt.helpers(); };
    ways.watch = cluster::watch_with_page(options);
    ways.fork = [&](const std::vector<ChildOptions>& ranks) {
      if (began) return attempt.fork(options, ranks);  // a replacement of a lost rank, without a fork if necessary
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

/// Returns only on failure.
int become_whole_program(std::vector<std::string> words) {
  const std::string program = whole_program_beside().string();
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(program.c_str(), arguments.data());
  fmt::print(stderr, "lockstep: error: cannot run {}: {}\n", program, std::strerror(errno));
  return kFailed;
}

int start(std::vector<std::string> words, const AppCommands& apps) {
  if (words.size() == 2 && words[1] == "--version") {
    fmt::print("lockstep {}\n", version());
    return kOk;
  }
  const std::vector<std::string> behind(words.begin() + std::min<std::ptrdiff_t>(1, std::ssize(words)), words.end());
  if (const auto code = run_plain_command(behind, apps)) return *code;
  require_address_space(kAddressSpaceOfLibtorch);
  const auto done = words.empty() ? ForkStart{} : start_by_forking({words.begin() + 1, words.end()});
  if (done.exit_code) return *done.exit_code;
  if (done.spawn) words.insert(words.begin() + 2, "--start-method=spawn");
  return become_whole_program(std::move(words));
}

}  // namespace

int run_small_program(int argc, char** argv, const AppCommands& apps) {
  // UCX, which a newer libtorch loads with Open MPI 5, would handle SIGHUP to enable its debugging. Then SIGHUP would
  // not end a run.
  ::setenv("UCX_DEBUG_SIGNO", "0", /*overwrite=*/0);
  try {
    return start({argv, argv + argc}, apps);
  } catch (const std::exception& error) {
    return cluster::end_with(error, error.what());
  }
}

}  // namespace lockstep::cli
