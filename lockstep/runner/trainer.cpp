// The Trainer: its process becomes a scheduler, the launcher of its node, or a rank that trains and evaluates.
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/process.h>
#include <lockstep/cluster/failure.h>
#include <lockstep/cluster/launch.h>
#include <lockstep/cluster/spawn.h>
#include <lockstep/runner/run_program.h>
#include <lockstep/runner/scheduler.h>
#include <lockstep/runner/trainer.h>
#include <lockstep/train/configuration/read_config.h>
#include <lockstep/train/evaluation/evaluate_run.h>
#include <lockstep/train/run_group.h>
#include <lockstep/train/stop_signals.h>

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <utility>

namespace lockstep {
namespace {

/// The command that started this process, for programs that do not set one.
std::vector<std::string> own_command() {
  std::vector<std::string> words;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  if (words.empty()) words.emplace_back();
  words.front() = std::filesystem::read_symlink("/proc/self/exe").string();
  return words;
}

/// Each rank runs the same command, and reads its rank from the environment.
int start_this_node(const Start& start, const std::vector<std::string>& command) {
  fmt::print("{}\n", runner::conclusion(start));
  std::fflush(stdout);
  cluster::LaunchOptions options;
  options.program.command = command.empty() ? own_command() : command;
  options.processes = start.ranks;
  options.first_rank = start.world;
  const cluster::LaunchResult result = cluster::launch(options);
  std::fputs(result.report.c_str(), stderr);
  return result.exit_code;
}

/// A batch system sends SIGTERM (or SIGUSR1 before it) and may start the run again. A user presses Ctrl-C.
int exit_code_of(const train::RunResult& result) {
  if (!result.ended_by) return cluster::kOk;
  // The signal may arrive again: Slurm's KillOnBadExit, for example, sends it to the ranks when the first rank has
  // ended.
  result.signals->ignore_for_good();
  const std::string signal = signal_name(*result.ended_by);
  cluster::report_failure(fmt::format("{} ended the run early, after step {}", signal, result.steps), "ended_early");
  return *result.ended_by == SIGTERM || *result.ended_by == SIGUSR1 ? cluster::kEndedEarly : 128 + *result.ended_by;
}

/// The section `program`. The program may read it late, for example when it makes its model or its callbacks, which are
/// made last.
void require_read(const ConfigNode& section) {
  if (section.entries.empty() || !section.looked_at || *section.looked_at) return;
  const auto& first = section.entries.front();
  throw Error(ErrorKind::config, "config",
              fmt::format("program.{}: this program does not read the section program; remove it, or read it where the "
                          "program is made: read_config<Options>(config.program, \"program\")",
                          first.key),
              first.value.position);
}

train::Program with_read_section(train::Program program, const train::ResolvedRun& config) {
  program.callbacks = [before = std::move(program.callbacks), section = config.program](int rank) {
    require_read(section);
    return before ? before(rank) : train::Callbacks{};
  };
  return program;
}

}  // namespace

struct Trainer::State {
  std::function<train::Program()> make;
  train::ResolvedRun config;
  runner::ProgramStart start;
  std::optional<World> world;  ///< of a rank, when it is known
  bool is_known = false;
  bool from_checkpoint = false;
  int exit_code = cluster::kOk;
  std::optional<Group> group;  ///< outlives the tensors, which may use its memory
  std::optional<train::Program> program;
  std::optional<train::NamedTensors> weights;

  /// Whether this process is a rank. A process with another role runs that role first.
  bool find_out() {
    if (std::exchange(is_known, true)) return world.has_value();
    if (world) return true;
    if (runner::is_scheduler(start.launcher, train::cluster_of(config))) {
      exit_code = runner::run_scheduler(config.cluster);
      return false;
    }
    const Start found = runner::find_start(config, start);
    if (found.ranks > 1) {
      exit_code = start_this_node(found, start.rank_command);
      return false;
    }
    world = found.world;
    return true;
  }

  /// Calls `act` with the group of all ranks, if this process is a rank.
  template <typename Act>
  auto as_rank(const Act& act) -> decltype(act(std::declval<std::optional<Group>&>())) {
    try {
      if (!find_out()) return {};
      if (!program) program = with_read_section(make(), config);
      if (!group) {
        config = train::resolved_for(*program, config);
        train::check_run_config(train::without_training(config));
        group = train::connect_run(config, *world);
      }
      return act(group);
    } catch (const Error& error) {
      const auto placed = train::with_place(error, config.given);
      failed(placed, placed.what());
      throw placed;
    } catch (const c10::Error& error) {
      failed(error, error.what_without_backtrace());
      throw;
    } catch (const std::exception& error) {
      failed(error, error.what());
      throw;
    }
  }

  /// Sends the reason to the other ranks and to the launcher.
  void failed(const std::exception& error, const char* message) {
    exit_code = cluster::exit_code_for(error);
    if (group) group->abort(message);
    group.reset();
    cluster::report_failure(error);
  }

  /// The weights for evaluate() and predict(), if they are not at the path in the configuration.
  const train::NamedTensors* measured_weights() {
    if (!weights && from_checkpoint) weights = train::checkpoint_weights(config, *group);
    return weights ? &*weights : nullptr;
  }
};

Trainer::Trainer(std::function<train::Program()> make, train::ResolvedRun run, const runner::ProgramStart& start)
    : state_(std::make_unique<State>()) {
  state_->make = std::move(make);
  state_->config = std::move(run);
  state_->start = start;
}

Trainer::Trainer(train::Program program, train::ResolvedRun run, std::optional<World> world)
    : Trainer([program = std::move(program)] { return program; }, std::move(run), runner::ProgramStart{}) {
  state_->world = std::move(world);
}

Trainer::Trainer(train::Program program, train::RunConfig config, std::optional<World> world)
    : Trainer(std::move(program), train::ResolvedRun(std::move(config)), std::move(world)) {}

Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

train::RunResult Trainer::train() {
  auto& state = *state_;
  auto result = state.as_rank([&](std::optional<Group>& group) {
    auto trained = train::run_training(state.config, *state.program, group);
    if (trained.ended_by) {
      state.exit_code = exit_code_of(trained);
    } else {
      state.weights = trained.weights;
    }
    return trained;
  });
  return result;
}

train::Evaluation Trainer::evaluate() {
  auto& state = *state_;
  return state.as_rank([&](std::optional<Group>& group) {
    return train::evaluate_run(state.config, *state.program, *group, state.measured_weights());
  });
}

train::Prediction Trainer::predict(std::shared_ptr<const samples::Dataset> dataset,
                                   const std::filesystem::path& folder) {
  auto& state = *state_;
  return state.as_rank([&](std::optional<Group>& group) {
    return train::predict_run(state.config, *state.program, *group, state.measured_weights(), dataset, folder);
  });
}

Trainer& Trainer::resume(const std::optional<std::filesystem::path>& checkpoint) {
  state_->config.checkpoint.resume = checkpoint ? checkpoint->string() : "auto";
  state_->from_checkpoint = true;
  state_->weights.reset();
  return *this;
}

bool Trainer::is_rank() { return state_->find_out(); }

const World& Trainer::world() {
  if (!is_rank())
    fail(ErrorKind::invalid_argument, "trainer",
         "this process is not a rank: it has started those of its node, or was the scheduler");
  return *state_->world;
}

int Trainer::exit_code() const { return state_->exit_code; }

}  // namespace lockstep
