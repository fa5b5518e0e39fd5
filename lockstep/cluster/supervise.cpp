// The launcher's poll loop over ranks: output, ends, signals, helpers, replacements in place, and strays at the end.
#include <lockstep/base/available_memory.h>
#include <lockstep/base/error.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/base/this_host.h>
#include <lockstep/cluster/launch_ranks.h>
#include <lockstep/cluster/processes/ending.h>
#include <lockstep/cluster/processes/event_loop.h>
#include <lockstep/cluster/processes/helper.h>
#include <lockstep/cluster/processes/local_rank.h>
#include <lockstep/cluster/processes/stray_processes.h>
#include <lockstep/cluster/replace/replacements.h>

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <iterator>
#include <map>
#include <utility>

namespace lockstep::cluster {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// The interval of polling without an event: for orphans to reap, and for strays that are being ended.
constexpr milliseconds kIdleLook(5000);
constexpr milliseconds kStrayLook(20);
/// The time for remaining output when no process of the job is left: a process outside the job holds the pipe.
constexpr milliseconds kDrainLimit(2000);
/// The time for ranks to end after the signal until the user gets a list of those that still run. They may be saving
/// their work.
constexpr milliseconds kTellSlow(2000);
/// The interval of reports to those who watch the job, and the lines of a rank's output that they get.
constexpr milliseconds kReport(1000);
constexpr std::size_t kReportedLines = 50;

/// The signal with which ranks were asked to end, and when.
struct Asked {
  int signal = 0;
  Clock::time_point at;
  bool told = false;  ///< the user got the list of ranks that still run
};

class Supervisor {
 public:
  Supervisor(const LaunchOptions& options, const Launch& job, Replacing replacing, std::vector<Helper> helpers,
             Watching watching)
      : options_(options),
        job_(job),
        replacements_(options, job, std::move(replacing)),
        signals_(with_notice_signal(options.signals)),
        consoles_{ConsoleSink(options.out), ConsoleSink(options.err)},
        ending_(options.ending),
        helpers_(std::move(helpers)),
        watching_(std::move(watching)) {}

  LaunchResult run(std::optional<ForkedRanks> forked) {
    start_ranks(std::move(forked));
    while (any_running()) {
      wait_for_events(kIdleLook);
      strays_.reap();
    }
    end_what_is_left();
    drain();
    report_job();
    return result();
  }

 private:
  void start_ranks(std::optional<ForkedRanks> forked);
  void take_rank(const Launch& job, int local_rank, Child child);
  void end_what_is_left();
  void drain();
  LaunchResult result() const;

  bool any_running() const;
  bool output_left();

  /// One iteration of the event loop, at most `limit` long: ends, signals, output and deadlines.
  void wait_for_events(milliseconds limit);
  void watch_output(Poller& poller, RankStream& stream);
  void watch_console(Poller& poller, ConsoleSink& console, std::string_view name);
  void watch_helpers(Poller& poller);
  void tell_of_end(Helper& helper);
  void renew_keeper(LocalRank& rank);
  void look_for_memory_kill(LocalRank& rank);
  void look_for_end(LocalRank& rank);
  /// Starts a process in the place of one that has ended; false when that is not wanted, or fails.
  bool replace(LocalRank& rank);
  void take_replacement(Replacements::Started started);
  void end_lost_ranks();
  /// Handles replacements that started for a job which has ended well without them.
  void end_late_replacements();
  void take_signals();
  void watch_stop(Poller& poller);
  void tell_ranks(std::optional<int> signal);
  /// Sends the signal to end, or SIGKILL after the deadline.
  void end_ranks(std::optional<int> signal);
  void tell_who_is_slow();
  /// Shows the user a decision, and those who watch the job.
  void tell_decision(const std::string& text);
  void report_job_if_due();
  void report_job(const LocalRank* lost = nullptr);
  dashboard::RankProcess describe_process(LocalRank& rank, const std::string& end_before);
  void watch_requests(Poller& poller);
  std::string kill_on_request(const dashboard::KillRequest& request);

  const LaunchOptions& options_;
  const Launch& job_;
  Replacements replacements_;
  const Clock::time_point start_ = Clock::now();
  const IgnoreFailedWrites ignore_failed_writes_;
  SignalInbox signals_;
  StrayProcesses strays_;
  Lifeline lifeline_;
  Consoles consoles_;
  Ending ending_;
  std::vector<Helper> helpers_;
  const Watching watching_;
  Clock::time_point reported_{};        ///< the last report of the job
  std::vector<std::string> decisions_;  ///< since then
  /// The kernel's kills for lack of memory that were counted so far.
  std::optional<MemoryAccount> memory_ = memory_account();
  std::optional<Asked> asked_;
  bool stopped_ = false;  ///< stop_fd became readable
  std::optional<int> user_signal_;
  bool log_failed_ = false;  ///< and the user got a message about it
  bool killed_ = false;      ///< all ranks were sent SIGKILL
  /// A rank failed before any was asked to end, and not with kEndedEarly, which requests a restart.
  bool failed_ = false;
  bool hurried_ = false;         ///< the user sent a signal; from then on nothing waits for a slow console
  std::deque<LocalRank> ranks_;  ///< including replaced ones
};

void Supervisor::start_ranks(std::optional<ForkedRanks> forked) {
  if (limits_threads(options_.environment, job_.ranks) && usable_cpus() >= 2 * job_.ranks) {  // cores are idle
    consoles_.err.append(
        "lockstep run: OMP_NUM_THREADS is not set; each rank computes with 1 thread (set it to use more; for "
        "`lockstep train`, set system.threads)\n");
  }
  for (int local_rank = 0; local_rank < job_.ranks; ++local_rank) {
    if (!forked) {
      take_rank(job_, local_rank, Child(prepare_rank(options_, job_, local_rank)));
    } else {
      take_rank(job_, local_rank, std::move(forked->children.at(static_cast<std::size_t>(local_rank))));
      ranks_.back().out().take(forked->said.out);
      ranks_.back().err().take(forked->said.err);
    }
  }
  if (forked) forked->release();
}

void Supervisor::take_rank(const Launch& job, int local_rank, Child child) {
  const int rank = job.first_rank + local_rank;
  const LocalRank& taken = ranks_.emplace_back(rank, std::move(child), options_.prefix.of(rank, local_rank),
                                               outlets_of(options_.output, local_rank, folder_of_rank(job, local_rank)),
                                               lifeline_, consoles_);
  if (watching_.report) ranks_.back().keep_lines(kReportedLines);
  strays_.except(taken.child().pid());
  strays_.except(taken.keeper().pid());
}

void Supervisor::end_what_is_left() {
  end_ranks(ending_.ranks_ended(Clock::now()));
  while (!strays_.sweep(killed_ ? SIGKILL : SIGTERM).empty() && !ending_.gave_up()) wait_for_events(kStrayLook);
}

void Supervisor::drain() {
  const auto deadline = Clock::now() + kDrainLimit;
  hurried_ = false;
  while (output_left() && !hurried_) {
    wait_for_events(kStrayLook);
    if (Clock::now() < deadline) continue;
    for (LocalRank& rank : ranks_) {
      rank.out().close();
      rank.err().close();
    }
  }
}

bool Supervisor::any_running() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const LocalRank& rank) { return rank.running(); });
}

bool Supervisor::output_left() {
  return consoles_.out.pending() || consoles_.err.pending() ||
         std::any_of(ranks_.begin(), ranks_.end(),
                     [](LocalRank& rank) { return rank.out().open() || rank.err().open(); });
}

void Supervisor::wait_for_events(milliseconds limit) {
  Poller poller;
  if (signals_.fd() >= 0) poller.add(signals_.fd(), POLLIN, [this] { take_signals(); });
  watch_stop(poller);
  if (replacements_.losses_fd() >= 0) {
    poller.add(replacements_.losses_fd(), POLLIN, [this] { replacements_.read_losses(); });
  }
  // Output before ends: the last output of a rank is then known when its end is handled.
  for (LocalRank& rank : ranks_) {
    watch_output(poller, rank.out());
    watch_output(poller, rank.err());
  }
  watch_console(poller, consoles_.out, "stdout");
  watch_console(poller, consoles_.err, "stderr");
  for (LocalRank& rank : ranks_) {
    if (rank.running()) poller.add(rank.child().end_fd(), POLLIN, [this, &rank] { look_for_end(rank); });
  }
  watch_helpers(poller);
  watch_requests(poller);
  const auto at_most_until = [&](Clock::time_point moment) {
    limit = std::clamp(std::chrono::ceil<milliseconds>(moment - Clock::now()), milliseconds(0), limit);
  };
  if (const auto deadline = ending_.deadline()) at_most_until(*deadline);
  if (asked_ && !asked_->told) at_most_until(asked_->at + kTellSlow);
  if (const auto moment = replacements_.next_look()) at_most_until(*moment);
  if (watching_.report) at_most_until(reported_ + kReport);
  poller.wait(limit);
  replacements_.look(Clock::now());
  end_lost_ranks();
  end_late_replacements();
  end_ranks(ending_.tick(Clock::now()));
  tell_who_is_slow();
  report_job_if_due();
}

void Supervisor::watch_output(Poller& poller, RankStream& stream) {
  if (!stream.open() || stream.must_wait()) return;
  poller.add(stream.fd(), POLLIN, [this, &stream] {
    stream.read_some();
    const auto failure = stream.take_log_failure();
    if (!failure || std::exchange(log_failed_, true)) return;  // one full disk makes all of them fail
    consoles_.err.append(fmt::format(
        "lockstep run: cannot write {}; the job goes on, and output that is missing in a file is shown here\n",
        *failure));
  });
}

void Supervisor::watch_console(Poller& poller, ConsoleSink& console, std::string_view name) {
  if (!console.pending()) return;
  poller.add(console.fd(), POLLOUT, [this, &console, name] {
    console.write_some();
    if (!console.take_lost()) return;
    consoles_.err.append(
        fmt::format("lockstep run: {} was closed; what the ranks write there is dropped from now on\n", name));
  });
}

// After the ranks: the end of a whole group is reported as the end of the rank.
void Supervisor::watch_helpers(Poller& poller) {
  for (LocalRank& rank : ranks_) {
    if (rank.needs_keeper()) poller.add(rank.keeper().end_fd(), POLLIN, [this, &rank] { renew_keeper(rank); });
  }
  for (Helper& helper : helpers_) {
    if (helper.end) poller.add(helper.end.get(), POLLIN, [this, &helper] { tell_of_end(helper); });
  }
}

void Supervisor::tell_of_end(Helper& helper) {
  const auto end = end_of(helper.end);
  helper.end.reset();
  if (!any_running()) return;
  consoles_.err.append(fmt::format("lockstep run: the helper process {} (pid {}) ended{}; {}\n", helper.name,
                                   helper.pid, end ? ": " + describe(*end) : "", helper.without));
}

void Supervisor::renew_keeper(LocalRank& rank) {
  look_for_end(rank);
  if (!rank.needs_keeper()) return;
  const pid_t before = rank.keeper().pid();
  try {
    rank.renew_keeper(lifeline_);
    strays_.except(rank.keeper().pid());
    consoles_.err.append(fmt::format(
        "lockstep run: the helper process lockstep-keeper (pid {}) of rank {} ended and was started again\n", before,
        rank.rank()));
  } catch (const Error& error) {
    consoles_.err.append(fmt::format(
        "lockstep run: the helper process lockstep-keeper (pid {}) of rank {} ended and cannot be started again ({}); "
        "the job goes on without it, and processes that this rank starts may outlive a killed launcher\n",
        before, rank.rank(), error.message()));
  }
}

void Supervisor::look_for_end(LocalRank& rank) {
  if (!rank.look_for_end()) return;
  reported_ = {};
  look_for_memory_kill(rank);
  if (rank.status().ok() || replacements_.is_excused(rank) || replace(rank)) return;
  failed_ = failed_ || (!asked_ && rank.status().code != kEndedEarly);
  ending_.rank_failed(Clock::now());
}

// The kernel increments the counter before it kills.
void Supervisor::look_for_memory_kill(LocalRank& rank) {
  if (!rank.was_killed() || !memory_) return;
  const auto now = memory_account();
  if (!now || now->kills <= memory_->kills) return;
  ++memory_->kills;  // the end of another rank may be the next kill
  rank.note_cause(describe_memory_kill(*now));
}

bool Supervisor::replace(LocalRank& rank) {
  if (asked_ || failed_ || !replacements_.is_mishap(rank)) return false;
  if (replacements_.gave_up(rank)) rank.note_given_up("because it hung, or sent no heartbeats");
  const auto end = replacements_.end_of(rank, start_);
  const auto what = fmt::format("rank {} (pid {}) was lost after {:.1f} s: {}", end.rank, end.pid,
                                static_cast<double>(end.after.count()) / 1000, how_it_ended(end));
  if (replacements_.repeats_a_death(end)) {
    tell_decision(what + "; it is not replaced: the process before it died in the same way at the same step");
    return false;
  }
  if (!replacements_.take_one()) {
    tell_decision(what + "; it is not replaced: none of the job's replacements is left (--max-restarts)");
    return false;
  }
  report_job(&rank);
  rank.mark_replaced();
  try {
    take_replacement(replacements_.start(rank));
  } catch (const Error& error) {
    tell_decision(fmt::format("{}; no process could be started in its place: {}", what, error.message()));
    return false;
  }
  tell_decision(
      fmt::format("{}; the others keep running, and pid {} takes its place", what, ranks_.back().child().pid()));
  return true;
}

void Supervisor::take_replacement(Replacements::Started started) {
  take_rank(started.job, started.local_rank, std::move(started.ranks.children.front()));
  replacements_.note_started(ranks_.back());
  ranks_.back().out().take(started.ranks.said.out);
  ranks_.back().err().take(started.ranks.said.err);
  if (started.ranks.gate) started.ranks.release();
}

// A process that is stopped, or starved, may never end by itself.
void Supervisor::end_lost_ranks() {
  for (LocalRank& rank : ranks_) {
    if (rank.running() && replacements_.is_to_be_killed(rank, Clock::now())) rank.kill();
  }
}

void Supervisor::end_late_replacements() {
  if (asked_ || failed_) return;
  const auto needed = [&](const LocalRank& rank) { return rank.running() && !replacements_.came_too_late(rank); };
  if (!any_running() || std::any_of(ranks_.begin(), ranks_.end(), needed)) return;
  for (LocalRank& rank : ranks_) {
    if (!rank.running()) continue;
    replacements_.excuse(rank);
    rank.kill();
  }
}

void Supervisor::take_signals() {
  while (const auto signal = signals_.take()) {
    if (is_notice_signal(*signal, options_.signals)) {
      tell_ranks(signal);
      continue;
    }
    hurried_ = true;
    user_signal_ = *signal;
    end_ranks(ending_.user_signal(*signal, Clock::now()));
  }
}

void Supervisor::watch_stop(Poller& poller) {
  if (options_.stop_fd < 0 || stopped_ || !any_running()) return;
  poller.add(options_.stop_fd, POLLIN, [this] {
    stopped_ = true;
    end_ranks(ending_.stop(Clock::now()));
  });
}

void Supervisor::tell_ranks(std::optional<int> signal) {
  if (!signal) return;
  killed_ = killed_ || *signal == SIGKILL;
  for (LocalRank& rank : ranks_) rank.signal(*signal);
}

void Supervisor::end_ranks(std::optional<int> signal) {
  if (signal) asked_ = Asked{*signal, Clock::now(), *signal == SIGKILL};
  tell_ranks(signal);
}

void Supervisor::tell_who_is_slow() {
  const auto now = Clock::now();
  if (!asked_ || asked_->told || now < asked_->at + kTellSlow) return;
  asked_->told = true;
  std::vector<int> running;
  for (const LocalRank& rank : ranks_) {
    if (rank.running()) running.push_back(rank.rank());
  }
  if (running.empty() || !ending_.deadline()) return;
  const auto left = std::chrono::ceil<std::chrono::seconds>(*ending_.deadline() - now);
  consoles_.err.append(fmt::format(
      "lockstep run: waiting for {} to end, after {} {} s ago; they are killed in {} s (--grace), or at the next "
      "signal\n",
      names_of_ranks(running), signal_name(asked_->signal), kTellSlow.count() / 1000, left.count()));
  // Other ranks failed, perhaps because these hang. A rank that ends on request may be saving its work.
  if (!failed_) return;
  for (LocalRank& rank : ranks_) {
    if (rank.running()) rank.ask_where();
  }
}

void Supervisor::tell_decision(const std::string& text) {
  consoles_.err.append(fmt::format("lockstep run: {}\n", text));
  if (watching_.report) decisions_.push_back(text);
}

void Supervisor::report_job_if_due() {
  if (watching_.report && Clock::now() >= reported_ + kReport) report_job();
}

/// `lost`: a rank that has ended and is to be replaced; its status page has its last steps.
void Supervisor::report_job(const LocalRank* lost) {
  if (!watching_.report) return;
  reported_ = Clock::now();
  std::map<int, dashboard::RankProcess> processes;  // the last one of each rank
  for (LocalRank& rank : ranks_) {
    auto& process = processes[rank.rank()];
    process = describe_process(rank, process.end);
    if (&rank == lost) process.state = dashboard::ProcessState::lost;
  }
  dashboard::JobReport report;
  report.round = watching_.round;
  report.world = world_size_of(job_);
  report.hosts = job_.nodes > 0 ? job_.nodes : std::max(1, report.world / job_.ranks);
  for (auto& [rank, process] : processes) report.ranks.push_back(std::move(process));
  report.decisions = std::exchange(decisions_, {});
  watching_.report(std::move(report));
}

dashboard::RankProcess Supervisor::describe_process(LocalRank& rank, const std::string& end_before) {
  using dashboard::ProcessState;
  dashboard::RankProcess process;
  process.rank = rank.rank();
  process.pid = rank.child().pid();
  process.end_before = end_before;
  process.status_file = replacements_.file_of(rank, status_file_of);
  process.lines = rank.new_lines();
  if (rank.running()) return process;
  const bool well = rank.status().ok() || replacements_.is_excused(rank);
  const auto end = rank.end(start_);
  process.state = well || end.asked != 0 ? ProcessState::ended : ProcessState::failed;
  if (!well) process.end = how_it_ended(end) + (end.asked != 0 ? ", after the launcher's signal" : "");
  return process;
}

void Supervisor::watch_requests(Poller& poller) {
  if (watching_.requests_fd < 0) return;
  poller.add(watching_.requests_fd, POLLIN, [this] {
    while (const auto request = watching_.take_request()) {
      const auto refusal = kill_on_request(*request);
      watching_.answer(
          *request, refusal.empty(),
          refusal.empty() ? fmt::format("rank {} (pid {}) was sent SIGKILL", request->rank, request->pid) : refusal);
    }
  });
}

/// Returns why it does not kill the rank; empty: it does.
std::string Supervisor::kill_on_request(const dashboard::KillRequest& request) {
  for (LocalRank& rank : ranks_) {
    if (rank.rank() != request.rank || rank.child().pid() != request.pid || !rank.running()) continue;
    tell_decision(fmt::format("rank {} (pid {}) is killed: the live page asked for it", request.rank, request.pid));
    rank.note_given_up("by the button of the live page");
    rank.kill();
    return "";
  }
  return fmt::format("the process {} of rank {} has ended", request.pid, request.rank);
}

LaunchResult Supervisor::result() const {
  LaunchResult result;
  for (const LocalRank& rank : ranks_) {
    if (!rank.replaced()) result.ends.push_back(replacements_.end_of(rank, start_));
  }
  std::sort(result.ends.begin(), result.ends.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  result.replaced = replacements_.count();
  const RunOutcome outcome = judge(result.ends, ending_.interrupted_by());
  result.exit_code = outcome.exit_code;
  result.first_failed = outcome.first_failed;
  result.report = outcome.report;
  result.stopped = stopped_;
  result.user_signal = user_signal_;
  return result;
}

}  // namespace

LaunchResult supervise(const LaunchOptions& options, const Launch& job, std::optional<ForkedRanks> forked,
                       Replacing replacing, std::vector<Helper> helpers, Watching watching) {
  return Supervisor(options, job, std::move(replacing), std::move(helpers), std::move(watching)).run(std::move(forked));
}

}  // namespace lockstep::cluster
