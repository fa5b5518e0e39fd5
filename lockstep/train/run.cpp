// The sequence of a training run on a rank: log, lock, agreement of ranks, plan, folders, session, results; a loss of
// ranks keeps the state for recovery. The last ranks of a job may be parameter servers instead.
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/log.h>
#include <lockstep/base/process.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>
#include <lockstep/comm/texts.h>
#include <lockstep/parameter_servers/server.h>
#include <lockstep/state/checkpoint_folder.h>
#include <lockstep/state/sharded/load.h>
#include <lockstep/train/callbacks/run_callbacks.h>
#include <lockstep/train/checkpoint/run_folder.h>
#include <lockstep/train/configuration/changes.h>
#include <lockstep/train/configuration/read_config.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/modes/auto_mode.h>
#include <lockstep/train/modes/run_model.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/output/console.h>
#include <lockstep/train/output/loss_curve.h>
#include <lockstep/train/output/run_files.h>
#include <lockstep/train/resources/runtime.h>
#include <lockstep/train/resources/work_dir.h>
#include <lockstep/train/result.h>
#include <lockstep/train/run_group.h>
#include <lockstep/train/run_lock.h>
#include <lockstep/train/served/rows_agreement.h>
#include <lockstep/train/served/served_tables.h>
#include <lockstep/train/server_role.h>
#include <lockstep/train/session.h>
#include <lockstep/train/trained_run.h>

#include <torch/torch.h>

#include <csignal>
#include <functional>
#include <utility>

namespace lockstep::train {
namespace {

// The log lasts as long as the run.
class RankLog {
 public:
  RankLog(const ResolvedRun& config, const World& world, const WorkDir& work_dir, bool may_go_on) {
    LogOptions options{world.rank, world.size, config.system.log_level, work_dir.log(world.rank), /*console=*/false};
    // Console writes the output for users; the log's own console would repeat it.
    try {
      work_dir.make();
      start_logging(options);
    } catch (const Error& error) {
      if (!may_go_on || error.kind() != ErrorKind::io) throw;
      options.file.reset();
      options.console = true;
      start_logging(options);
      log_error("this rank's log is here: {}", error.message());
    }
  }
  ~RankLog() { stop_logging(); }
  RankLog(const RankLog&) = delete;
  RankLog& operator=(const RankLog&) = delete;
};

Callbacks make_callbacks(const ResolvedRun& config, const Program& program, const WorkDir& work_dir,
                         const Session& session, Console& console, int rank) {
  const auto& wanted = config.callbacks;
  auto callbacks = make_used_callbacks(config, program.callbacks ? program.callbacks(rank) : Callbacks{});
  if (wanted.loss_every != 0) callbacks.push_back(std::make_unique<LossLog>(console, wanted.loss_every));
  callbacks.push_back(std::make_unique<EpochLog>(console));
  if (console.style() != ProgressStyle::off) callbacks.push_back(std::make_unique<Progress>(console));
  if (rank != 0) return callbacks;
  callbacks.push_back(std::make_unique<PictureWriter>(work_dir.pictures()));
  if (wanted.metrics_every > 0) {
    const RunState& state = session.state();
    callbacks.push_back(
        std::make_unique<MetricsFile>(work_dir.metrics(), wanted.metrics_every, state.step, state.logged));
  }
  if (wanted.metrics_every > 0 && wanted.loss_curve) {
    const auto title = fmt::format("{} on {}", config.model.name, config.data.name);
    callbacks.push_back(
        std::make_unique<LossCurve>(work_dir.metrics(), work_dir.loss_curve(), title, session.state().evaluations));
  }
  if (wanted.tensorboard) {
    callbacks.push_back(std::make_unique<TensorBoardLog>(work_dir.tensorboard(), wanted.metrics_every));
  }
  return callbacks;
}

// `goes_on`: the run continues from the memory of ranks, even if the disk has failed since the start.
void prepare(bool goes_on, const std::function<void()>& write) {
  try {
    write();
  } catch (const Error& error) {
    if (!goes_on || error.kind() != ErrorKind::io) throw;
    log_error("training goes on in memory, and nothing can be saved just now: {}", error.message());
  }
}

void prepare_folders(const ResolvedRun& config, const WorkDir& work_dir, bool goes_on) {
  const auto checkpoints = checkpoint_folder_of(config);
  prepare(goes_on, [&] {
    work_dir.make();
    remove_abandoned_temporaries(config.system.work_dir);
    remove_abandoned_temporaries(checkpoints);
    require_writable_folder(checkpoints, "checkpoint.folder");
  });
}

// Checked before the work whose results these files are.
void require_no_folder(const std::filesystem::path& file) {
  std::error_code unknown;
  if (!std::filesystem::is_directory(file, unknown)) return;
  fail(ErrorKind::config, "system.work_dir",
       "{} is a folder, and the run writes a file of that name; remove it, or choose another folder", file.string());
}

// Only after the check that this run may continue there: a rejected run must not change any file.
void begin_in_folder(const ResolvedRun& config, const WorkDir& work_dir, const Session& session, Console& console,
                     bool goes_on, const std::string& table) {
  if (session.state().step == 0 && std::filesystem::exists(work_dir.result())) {
    tell(console, fmt::format("{} holds the result of an earlier run and no checkpoint: this run starts from the "
                              "beginning, and its files replace those of the earlier run",
                              config.system.work_dir));
  }
  const auto classes = session.classes();
  if (session.state().step > 0) require_same_classes(classes_of_run(config.system.work_dir), classes);
  for (const auto& file : {work_dir.config(), work_dir.weights(), work_dir.result()}) require_no_folder(file);
  std::error_code unknown;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", unknown).string();
  const auto text = (config.has_own_model ? own_program_line(program) : "") + print_config(config);
  prepare(goes_on, [&] { write_file_atomically(work_dir.config(), text); });
  if (!classes.empty()) prepare(goes_on, [&] { write_file_atomically(work_dir.classes(), classes_text(classes)); });
  if (!table.empty()) prepare(goes_on, [&] { write_file_atomically(work_dir.table(), table); });
}

/// The initial weights of the run from whose checkpoint this one continues; empty: this run starts from the beginning.
std::filesystem::path beginning_of(const ResolvedRun& config, bool goes_on) {
  const auto& resume = config.checkpoint.resume;
  if (goes_on || (resume == "auto" && !list_checkpoints(checkpoint_folder_of(config)).empty())) {
    return config.system.work_dir;
  }
  return resume == "auto" || resume == "none" ? std::filesystem::path() : std::filesystem::path(resume);
}

/// The statistics for a table, on all ranks (run_folder.h): those of the run from which this one continues, even if
/// the file has changed since; for a new run those of the file. A collective.
std::string learned_table(const ResolvedRun& config, const Group& group, Console& console, bool goes_on) {
  if (!has_table(config)) return {};
  std::string table;
  if (group.rank() == 0) {
    const auto kept = table_of_run(beginning_of(config, goes_on));
    const auto found = goes_on && !kept.empty() ? std::string() : table_of_training(config);
    const auto difference = kept.empty() || found.empty() ? std::string() : difference_of_tables(kept, found);
    if (!difference.empty()) {
      tell(console, fmt::format("data.train has changed since the run began ({}): numbers and words are still read "
                                "with the means, deviations and words of that time, from {}",
                                difference, kTableFile));
    }
    table = kept.empty() ? found : kept;
  }
  return share_text(table, group);
}

/// The step of the last line in metrics.jsonl, which an earlier process has completed; 0 without one.
std::int64_t last_line_of(const WorkDir& work_dir) {
  const auto lines = read_metrics(work_dir.metrics());
  return lines.empty() ? 0 : lines.back().step;
}

// The result of a run that a signal ended: this rank's signal, else the usual one, SIGTERM.
RunResult end_early(const ResolvedRun& config, const Session& session, std::shared_ptr<StopSignals> signals,
                    Console& console) {
  console.clear_progress();
  const auto& state = session.state();
  const bool saves = saves_checkpoints(config.checkpoint);
  tell(console,
       fmt::format("ended by {} after {} of {} steps; {}",
                   signals->noted() ? signal_name(*signals->noted()) : "a signal to another rank", state.step,
                   session.plan().total_steps,
                   saves && session.lacks_checkpoint()
                       ? "no checkpoint could be saved, so the same command goes on from the one before, if "
                         "there is one"
                   : saves ? "a checkpoint is saved, and the same command goes on from there"
                           : "nothing is saved, because checkpoint.every_epochs, every_steps and every_seconds "
                             "are 0"));
  RunResult result;
  result.steps = state.step;
  result.epochs = state.epoch;
  result.seconds = state.seconds;
  result.ended_by = signals->noted().value_or(SIGTERM);
  result.signals = std::move(signals);
  return result;
}

/// optimizer.base_batch_size: the learning rate is in proportion to the samples of a step (Goyal et al. 2017,
/// "Accurate, Large Minibatch SGD").
ResolvedRun with_scaled_rate(ResolvedRun config, const Group& group, Console& console) {
  const auto base = config.optimizer.base_batch_size;
  if (!base) return config;
  const auto samples = global_batch_size_of(config.data, data_share(config, group).count) * config.train.accumulate;
  const double lr = config.optimizer.lr * static_cast<double>(samples) / static_cast<double>(*base);
  tell(console, fmt::format("optimizer.lr {:.6g} is for steps of {} samples, these have {}: {:.6g}",
                            config.optimizer.lr, *base, samples, lr));
  config.optimizer.lr = lr;
  return config;
}

// State that cannot be kept is dropped: other ranks, or the newest checkpoint, have it.
void keep_state(Kept& kept, Session& session) {
  try {
    kept.state = session.salvage();
  } catch (const std::exception& error) {
    kept.state.reset();
    log_error("this rank cannot keep its state: {}", error.what());
  }
}

// Runs a session that is ready to train.
RunResult train_session(const ResolvedRun& config, const Program& program, const Group& group, const WorkDir& work_dir,
                        Session& session, Console& console, std::shared_ptr<StopSignals> signals) {
  if (!session.train(make_callbacks(config, program, work_dir, session, console, group.rank()), *signals)) {
    return end_early(config, session, std::move(signals), console);
  }
  const auto model_state = session.model_state();
  auto result = make_result(session, model_state, group);
  if (session.distant_tensors().empty()) result.weights = model_state;
  if (group.rank() == 0) {
    leave_results(config, work_dir, model_state, session.distant_tensors(), result, session.lacks_checkpoint());
  }
  return result;
}

/// The workers' state in memory, if the servers have the matching rows.
std::optional<ResumePoint> with_rows_of(const TablePlace& tables, const ResolvedRun& config,
                                        std::optional<ResumePoint> in_memory, Kept& kept, Console& console) {
  const auto step = in_memory ? std::optional(in_memory->step) : std::nullopt;
  const auto agreed =
      agree_with_servers(tables.everyone, tables.workers, static_cast<int>(config.parallel.server.replicas), step);
  if (!in_memory || agreed.step) return in_memory;
  const auto words = fmt::format("{}; the newest checkpoint is used instead", agreed.plan.obstacle);
  log_warning("{}", words);
  tell(console, words);
  kept.state.reset();
  return std::nullopt;
}

RunResult train_and_report(const ResolvedRun& given, const Program& parts, const Group& group, const WorkDir& work_dir,
                           RunLock& lock, Kept& kept, const std::shared_ptr<StopSignals>& signals,
                           std::optional<TablePlace> tables = std::nullopt) {
  const Group everyone = tables ? tables->everyone : group;
  const auto& world = group.world();
  const auto style = progress_style(given.callbacks.progress, stdout_is_terminal());
  Console console(has_console(given, world), world.rank == 0 ? style : ProgressStyle::off, wants_colours());
  apply_runtime(given.system);
  const auto how = fmt::format("; backend {}, device {}, {} thread(s) a rank", group.backend(),
                               describe_device(choose_device(given, group), given.system), given.system.threads);
  log_info("{}{}", describe(world), how);
  auto shown = world;
  if (find(current_environment(), "LOCKSTEP_VERBOSE").value_or("") != "1") shown.evidence.clear();
  console.line(describe(shown) + how);
  for (const auto& variable : overruled_variables(given.system, current_environment())) {
    tell(console, fmt::format("{} does not count: system.threads is {}", variable, given.system.threads));
  }
  require_same_settings(common_settings(given), everyone);
  if (tables && most_ahead(given.parallel.server)) {
    tell(console,
         fmt::format("parallel.server.consistency is {}: workers do not wait for each other, so every run gets "
                     "other numbers",
                     given.parallel.server.consistency));
  }
  const bool recovers = can_rejoin(group);
  auto in_memory = recovers ? agree_on_state(kept, group, console) : std::nullopt;
  if (tables) in_memory = with_rows_of(*tables, given, std::move(in_memory), kept, console);
  const bool goes_on = in_memory.has_value();
  lock.hold(group, console, goes_on);
  const auto table = learned_table(given, group, console, goes_on);
  const ResolvedRun config = with_table(given, table);
  const Program program = complete_program(with_data_of(parts, config), config);
  const ResolvedRun followed = with_scaled_rate(planned(config, program, group, console), group, console);
  if (world.rank == 0) prepare(goes_on, [&] { save_strategy_file(followed, program, group.size()); });
  if (world.rank == 0) prepare_folders(config, work_dir, goes_on);
  Session session(followed, config, program, group, console, kept.fault, kept.times, std::move(in_memory),
                  std::move(tables));
  if (world.rank == 0) begin_in_folder(config, work_dir, session, console, goes_on, table);
  kept.state.reset();  // the session has it
  RunResult result;
  try {
    session.join_times(world.rank == 0 && !goes_on ? last_line_of(work_dir) : 0);
    result = train_session(config, program, group, work_dir, session, console, signals);
    session.finish(result.ended_by);
    // A rank that leaves does not need other ranks, and no other rank needs it.
    if (recovers) {
      kept.result = result;
      barrier(everyone);
    }
  } catch (const Error& error) {
    // Asynchronous workers have completed different numbers of steps.
    if (is_loss(error) && !(is_served_mode(config.parallel) && most_ahead(config.parallel.server)))
      keep_state(kept, session);
    throw;
  }
  if (result.ended_by) return result;
  for (const auto& words : session.closing_words()) tell(console, words);
  if (const auto advice = advice_on_targets(config, result.evaluation)) tell(console, *advice);
  tell(console, time_line(result.times));
  tell(console,
       fmt::format("done: {}{:.1f} samples/s; see {}", result.evaluation ? values_text(*result.evaluation) + ", " : "",
                   result.samples_per_s, config.system.work_dir));
  return result;
}

std::vector<LockedFolder> locked_folders(const ResolvedRun& config) {
  std::vector<LockedFolder> folders{{config.system.work_dir, "system.work_dir"}};
  if (config.checkpoint.folder) folders.push_back({*config.checkpoint.folder, "checkpoint.folder"});
  return folders;
}

/// Runs as a worker or as a server; the last ranks of the job are servers. Only workers handle stop signals.
RunResult run_with_servers(const ResolvedRun& config, const Program& parts, const Group& everyone, int servers,
                           const WorkDir& work_dir, RunLock& lock, Kept& kept, KeptRows& kept_rows,
                           const std::shared_ptr<StopSignals>& signals) {
  auto division = parameter_servers::divide(everyone, servers);
  if (division.group) {
    return train_and_report(
        config, parts, *division.group, work_dir, lock, kept, signals,
        TablePlace{.everyone = everyone, .pairs = std::move(division.pairs), .workers = division.workers});
  }
  RunResult result;
  result.ended_by = serve_run(config, complete_program(parts, config), division, everyone, kept_rows);
  if (result.ended_by) result.signals = signals;
  result.steps = kept_rows.rows->step;
  if (can_rejoin(everyone)) {
    kept.result = result;
    barrier(everyone);
  }
  return result;
}

/// Without servers, each worker has the tables in its own memory.
ResolvedRun with_own_tables(ResolvedRun config) {
  if (is_served_mode(config.parallel)) config.parallel.mode = "data_parallel";
  return config;
}

RunResult run_as_rank(const ResolvedRun& asked, const Program& parts, std::optional<Group>& group) {
  const int servers = count_of_servers(asked);
  const ResolvedRun config = servers > 0 ? asked : with_own_tables(asked);
  const WorkDir work_dir(config.system.work_dir);
  const RankLog log(config, group->world(), work_dir, can_rejoin(*group));
  RunLock lock(locked_folders(config), job_identity(group->world(), current_environment()));
  KeptRows kept_rows;
  const auto part = [&](const Group& of_generation, Kept& kept) {
    const auto signals = std::make_shared<StopSignals>();
    try {
      if (servers > 0) {
        return run_with_servers(config, parts, of_generation, servers, work_dir, lock, kept, kept_rows, signals);
      }
      return train_and_report(config, parts, of_generation, work_dir, lock, kept, signals);
    } catch (...) {
      kept.signal = signals->noted();
      throw;
    }
  };
  try {
    if (can_rejoin(*group)) return run_with_recovery(group, part);
    Kept nothing;
    return part(*group, nothing);
  } catch (const std::exception& error) {
    log_error("{}", error.what());
    throw;
  }
}

}  // namespace

RunResult run_training(const ResolvedRun& given, const Program& parts, std::optional<Group>& group) {
  const auto config = resolved_for(parts, given);
  check_run_config(config);
  complete_program(parts, config);  // its errors are thrown before any file is written
  if (can_rejoin(*group)) return run_as_rank(config, parts, group);
  try {
    return run_as_rank(config, parts, group);
  } catch (...) {
    abort_and_rethrow(*group);
  }
}

RunResult run_training(const ResolvedRun& config, const Program& program, const World& world) {
  const auto run = resolved_for(program, config);
  check_run_config(run);
  std::optional<Group> group = connect_run(run, world);
  return run_training(run, program, group);
}

RunResult run_training(const ResolvedRun& config, const World& world) { return run_training(config, Program{}, world); }

}  // namespace lockstep::train
