// The main loop of an elastic launcher: joins the job, runs its node's ranks round by round, and reports their ends.
#include <lockstep/base/error.h>
#include <lockstep/cluster/c10d_store_host.h>
#include <lockstep/cluster/elastic/agent.h>
#include <lockstep/cluster/elastic/agent_log.h>
#include <lockstep/cluster/elastic/agent_membership.h>
#include <lockstep/cluster/elastic/agents_store.h>
#include <lockstep/cluster/elastic/rank_ends.h>
#include <lockstep/cluster/elastic/store_users.h>
#include <lockstep/cluster/fork_server/can_fork.h>
#include <lockstep/cluster/fork_server/fork_server.h>
#include <lockstep/cluster/launch_ranks.h>
#include <lockstep/cluster/lockstep_store_host.h>
#include <lockstep/cluster/processes/event_loop.h>
#include <lockstep/cluster/replace/job_service.h>

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <utility>

namespace lockstep::cluster::elastic {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// The interval of polling without an event: for the job's state, whose changes are events, and for the rendezvous of
/// the ranks.
constexpr milliseconds kIdleLook(1000);
constexpr milliseconds kRendezvousLook(20);
/// The time limit for sending the last message; after a timeout nothing else can be done.
constexpr milliseconds kFarewell(3000);
/// The interval of a spare's message that it is a spare.
constexpr std::chrono::seconds kTellSpare(60);

class Agent {
 public:
  Agent(const LaunchOptions& launch, const AgentOptions& options, const KeyValueStorePtr& store)
      : launch_(launch),
        options_(options),
        store_(store),
        forks_(launch),
        watcher_(
            AgentMembership(store, options.job, options.node, options.policy, options.pace, options.store_has_holder)),
        log_(launch.err),
        logs_(launch.output, options.job),
        inbox_(with_notice_signal(launch.signals)) {
    if (launch.output.log_dir.empty() && logs_.stays()) log_.tell(fmt::format("logs: {}", logs_.path().string()));
  }

  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;
  // Later signals change nothing, and must not end the process before it has reported how the job ended.
  ~Agent() {
    while (inbox_.take()) {
    }
  }

  LaunchResult run();

 private:
  using Condition = std::function<bool(const JobState&)>;

  /// The first state that meets the condition. Polls at least at the interval `look`. nullopt when the user sends a
  /// signal before that, or at `deadline`.
  std::optional<JobState> wait_for(const Condition& condition, milliseconds look = kIdleLook,
                                   std::optional<Clock::time_point> deadline = {});
  /// Whether the state has a new round for this node, or a change in a round in which it has no ranks.
  bool is_news(const JobState& state) const;
  void take_part(const JobState& state, const NodePlace& node_place);
  Launch job_of(const JobState& state, const NodePlace& node_place, const Place& place) const;
  /// The job service that node 0 offers to all ranks of the round; nullopt where it cannot be offered, or is not
  /// wanted.
  std::optional<ServiceAddress> offer_service(int ranks);
  Replacing replacing(const JobState& state);
  void run_ranks(const JobState& state, const NodePlace& node_place, const Place& place, std::vector<Helper> helpers);
  void take_signals();
  void tell_of_end(int round, const NodeEnds& ends);
  void say(const NodeReport& report);

  void tell_waiting(const JobState& state, Clock::time_point since);
  void tell_of_restart(const JobState& state);

  LaunchResult leave();
  LaunchResult close(const JobState& state);
  LaunchResult end_refused(const JobState& state);
  LaunchResult end_unneeded(LaunchResult result, std::string_view why);
  void depart(bool stays);
  void stay_for_others();

  const LaunchOptions& launch_;
  const AgentOptions& options_;
  const KeyValueStorePtr store_;
  ForkAttempt forks_;  ///< loads the program while the nodes join
  Watcher watcher_;
  AgentLog log_;
  const LogFolder logs_;
  /// Kept for the whole life of the agent, so that a signal between two waits reaches the next one.
  SignalInbox inbox_;
  NodeReport said_;
  int looked_at_ = 0;                  ///< the last round that this node took part in, or for which it was not needed
  std::size_t replaced_ = 0;           ///< the number of replaced nodes in it, as of the last look
  int took_part_in_ = 0;               ///< the last round in which this node had a place
  int restarts_ = 0;                   ///< the restarts already reported on the terminal
  milliseconds clock_ahead_{0};        ///< this clock minus the coordinator's, measured when the last round began
  std::optional<int> signal_;          ///< the signal that the user sent
  Launch job_;                         ///< the last round's job
  LaunchResult last_;                  ///< the last round's result; without ends, no ranks of this node ran in it
  std::optional<JobService> service_;  ///< the round's job service, where this is node 0
  ServiceEvents events_;
};

LaunchResult Agent::run() {
  while (true) {
    const auto state = wait_for([this](const JobState& now) {
      return now.phase == Phase::closed || is_news(now) || is_refused(now, watcher_.ticket());
    });
    if (!state) return leave();
    if (state->phase == Phase::closed) return close(*state);
    if (is_refused(*state, watcher_.ticket())) return end_refused(*state);
    looked_at_ = state->round;
    replaced_ = state->replaced.size();
    last_ = {};
    clock_ahead_ = milliseconds(wall_clock_milliseconds() - state->formed_at);
    tell_of_restart(*state);
    if (const auto node_place = store_->get(watcher_.keys().node_place(*state, watcher_.ticket()))) {
      take_part(*state, parse_node_place(*node_place));
    } else {
      log_.tell(
          fmt::format("round {} of job '{}' runs on its {} nodes; this node is a spare, which waits for one of them "
                      "to be lost or to leave. If it shall be a job of its own, start it with another --rdzv_id",
                      state->round, options_.job, state->nodes));
    }
    if (signal_) return leave();
  }
}

bool Agent::is_news(const JobState& state) const {
  if (state.phase != Phase::running) return false;
  return state.round > looked_at_ || (state.round > took_part_in_ && state.replaced.size() > replaced_);
}

std::optional<JobState> Agent::wait_for(const Condition& condition, milliseconds look,
                                        std::optional<Clock::time_point> deadline) {
  const auto since = Clock::now();
  while (true) {
    const JobState state = watcher_.state();
    if (condition(state)) return state;
    // No ranks of this node run here. It may have seen the begin of the round too late.
    const bool untold = said_.stage == Stage::ended || said_.round < state.round;
    if (state.phase == Phase::gathering && untold && said_.stage != Stage::left) say({.round = state.round});
    tell_waiting(state, since);
    Poller poller;
    poller.add(inbox_.fd(), POLLIN, [this] { take_signals(); });
    poller.add(watcher_.changed_fd(), POLLIN, [] {});
    poller.wait(look);
    if (signal_ || (deadline && Clock::now() >= *deadline)) return std::nullopt;
  }
}

void Agent::take_signals() {
  while (const auto signal = inbox_.take()) {
    // Ranks of other nodes may have received the notice signal first, and the ranks here ended with them.
    if (!is_notice_signal(*signal, launch_.signals) || any_ended_early(last_.ends)) signal_ = signal;
  }
}

void Agent::say(const NodeReport& report) {
  said_ = report;
  watcher_.say(report);
}

void Agent::take_part(const JobState& state, const NodePlace& node_place) {
  took_part_in_ = state.round;
  std::optional<C10dStoreHost> ranks_store;
  std::optional<LockstepStoreHost> own_store;
  if (node_place.node == 0) {
    const auto addresses = addresses_of(options_.address);
    own_store.emplace(options_.address, addresses);
    if (may_need_c10d_store(launch_)) ranks_store.emplace(addresses);
    const auto port = ranks_store ? ranks_store->port() : own_store->port();
    const Place here{options_.address, port, own_store->address(), offer_service(state.ranks)};
    store_->set(watcher_.keys().rendezvous(state), to_text(here));
  }
  std::optional<std::string> place;
  const auto over_or_known = [&](const JobState& now) {
    if (now.phase != Phase::running || now.round != state.round) return true;
    place = store_->get(watcher_.keys().rendezvous(state));
    return place.has_value();
  };
  if (!wait_for(over_or_known, kRendezvousLook)) return;
  if (!place) return;  // the round is over
  if (options_.policy.max_nodes > 1) log_.tell_place(state, node_place, options_.node.ranks);
  if (!state.replaced.empty() || (state.forgiven > 0 && state.forgiven == state.round - 1)) log_.tell(state.why);
  std::vector<Helper> helpers;
  if (ranks_store) helpers.push_back(ranks_store->helper());
  run_ranks(state, node_place, parse_place(*place), std::move(helpers));
}

std::optional<ServiceAddress> Agent::offer_service(int ranks) {
  service_.reset();
  if (launch_.replacements <= 0 || ranks < 2 || launch_.output.log_dir == "/dev/null") return std::nullopt;
  Pipe events = make_pipe();
  try {
    service_.emplace(options_.address, ranks, std::move(events.write_end));
  } catch (const Error& error) {
    log_.tell(fmt::format("lost ranks are not replaced in place: {}", error.message()));
    return std::nullopt;
  }
  events_ = ServiceEvents(std::move(events.read_end));
  return service_->address();
}

Replacing Agent::replacing(const JobState& state) {
  Replacing replacing;
  replacing.events = std::exchange(events_, ServiceEvents());
  if (replacing.events.fd() >= 0) {
    replacing.publish = [this, round = state.round](const auto& log) { watcher_.publish_service_log(round, log); };
  } else if (job_.service) {
    replacing.published = [this, round = state.round] { return watcher_.service_log(round); };
  }
  replacing.allowed = [this, restarts = state.restarts] {
    return take_replacement(*store_, watcher_.keys(), restarts, options_.policy.max_replacements);
  };
  replacing.fork = [this](const ChildOptions& rank) { return forks_.fork(launch_, {rank}, inbox_.fd()); };
  return replacing;
}

Launch Agent::job_of(const JobState& state, const NodePlace& node_place, const Place& place) const {
  Launch job;
  job.ranks = options_.node.ranks;
  job.first_rank = node_place.first_rank;
  job.world_size = state.ranks;
  job.master_addr = place.host;
  job.master_port = place.port;
  job.own_store = place.own_store;
  job.turn = static_cast<int>(state.replaced.size());
  job.node = node_place.node;
  job.nodes = state.nodes;
  job.restarts = state.restarts;
  job.max_restarts = options_.policy.max_restarts;
  job.run_id = options_.job;
  job.service = place.service;
  job.role = launch_.prefix.role;
  job.virtual_local_rank = launch_.virtual_local_rank;
  // The round's folder: a round that ended because of another node keeps its logs.
  job.folder = logs_.attempt(state.round - 1);
  job.columns = columns_for_ranks(launch_, node_place.first_rank + job.ranks - 1);
  return job;
}

void Agent::run_ranks(const JobState& state, const NodePlace& node_place, const Place& place,
                      std::vector<Helper> helpers) {
  job_ = job_of(state, node_place, place);
  LaunchOptions launch = launch_;
  const bool told_of_threads = said_.round > 0 && limits_threads(launch.environment, job_.ranks);
  if (told_of_threads) launch.environment["OMP_NUM_THREADS"] = "1";
  launch.stop_fd = watcher_.over_fd(state.round);
  say({.stage = Stage::running, .round = state.round});
  NodeEnds ends{options_.node.host, "", {}, clock_ahead_};
  try {
    auto forked = forks_.fork(launch, job_, inbox_.fd());
    for (auto& helper : forks_.helpers()) helpers.push_back(std::move(helper));
    last_ = supervise(launch, job_, std::move(forked), replacing(state), std::move(helpers));
    ends.ends = last_.ends;
  } catch (const Error& error) {
    ends.error = error.what();
  }
  signal_ = last_.user_signal ? last_.user_signal : obeyed_notice_signal(last_.ends);
  if (signal_) return;
  tell_of_end(state.round, ends);
}

// The store must hold the ends of the node's ranks before this node reports that they have ended.
void Agent::tell_of_end(int round, const NodeEnds& ends) {
  const NodeReport report = report_of(ends, round, last_.stopped);
  try {
    const auto state = watcher_.state();
    if (!all_ended_well(ends)) store_->set(watcher_.keys().ends(round, watcher_.ticket()), to_text(ends));
    if (last_.stopped && state.phase != Phase::closed) log_.tell(fmt::format("the ranks were stopped: {}", state.why));
  } catch (const Error&) {
    if (report.failed) log_.write(last_.report);  // no other process will report it
    throw;
  }
  say(report);
}

void Agent::tell_waiting(const JobState& state, Clock::time_point since) {
  const auto now = Clock::now();
  const bool is_spare = state.phase == Phase::running && said_.stage == Stage::waiting && looked_at_ == state.round;
  if (is_spare && log_.time_to_tell(since, now, kTellSpare)) {
    log_.tell(fmt::format("this node is still a spare of job '{}', whose round {} runs on its {} nodes, for {} s",
                          options_.job, state.round, state.nodes,
                          std::chrono::duration_cast<std::chrono::seconds>(now - since).count()));
  }
  const bool waits = state.phase == Phase::gathering && said_.stage == Stage::waiting;
  if (!waits || !log_.time_to_tell(since, now)) return;
  log_.tell(fmt::format("waiting at {} for at least {} nodes of job '{}', for {} s of at most {:.0f} s (join_timeout)",
                        store_->describe(), options_.policy.min_nodes, options_.job,
                        std::chrono::duration_cast<std::chrono::seconds>(now - since).count(),
                        std::chrono::duration<double>(options_.policy.join_timeout).count()));
}

void Agent::tell_of_restart(const JobState& state) {
  if (state.restarts <= restarts_) return;
  restarts_ = state.restarts;
  if (said_.round == 0) return;  // this node joined later
  const auto report = store_->get(watcher_.keys().report(state.round - 1));
  if (report) log_.write(*report);
}

// The agent that opened the store ends the job, and publishes that before it leaves.
LaunchResult Agent::leave() {
  const int signal = *signal_;
  say({.stage = Stage::left, .round = said_.round, .note = "ended by " + signal_name(signal)});
  watcher_.wait_told(kFarewell);
  if (options_.node.holds_store) {
    signal_.reset();
    wait_for([](const JobState& now) { return now.phase == Phase::closed; }, kIdleLook,
             Clock::now() + options_.close_timeout);
  }
  depart(options_.node.holds_store);
  if (!last_.user_signal && !any_ended_early(last_.ends)) {  // no ranks were running
    last_.exit_code = 128 + signal;
    last_.report = fmt::format("lockstep run: ended by {}\n", signal_name(signal));
  } else if (last_.first_failed) {
    publish_root_cause(last_, job_, logs_, launch_.environment);
  }
  return last_;
}

LaunchResult Agent::close(const JobState& state) {
  LaunchResult result = last_;
  result.exit_code = state.exit_code;
  result.first_failed = state.first_failed;
  result.report.clear();
  if (state.failed) {
    result.report = store_->get(watcher_.keys().report(state.round)).value_or("");
    if (result.report.empty()) result.report = fmt::format("lockstep run: the job has ended: {}\n", state.why);
    publish_root_cause(result, job_, logs_, launch_.environment);
  } else if (took_part_in_ == 0) {
    result = end_unneeded(
        result, fmt::format("job '{}' has ended well without this node, which was a spare: nothing was computed here",
                            options_.job));
  }
  say({.stage = Stage::left, .round = said_.round, .note = "the job has ended"});
  depart(true);
  return result;
}

/// The end of a launcher that its job does not need.
LaunchResult Agent::end_unneeded(LaunchResult result, std::string_view why) {
  result.exit_code = kUnneeded;
  result.report = fmt::format("lockstep run: {}\n", why);
  report_failure(why, kUnneededKind, launch_.environment);
  return result;
}

LaunchResult Agent::end_refused(const JobState& state) {
  const auto report = store_->get(watcher_.keys().report(state.forgiven)).value_or("");
  auto result = end_unneeded(last_, fmt::format("job '{}' goes on without this node", options_.job));
  result.exit_code = kUsage;
  result.report = report + result.report;
  say({.stage = Stage::left, .round = said_.round, .note = "it was refused"});
  depart(false);
  return result;
}

void Agent::depart(bool stays) {
  if (!options_.store_has_holder) return;
  try {
    watcher_.wait_told(kFarewell);
    watcher_.stop();
    leave_store(*store_);
    if (stays && store_->is_held_here()) stay_for_others();
  } catch (const Error&) {
    // The store ended before this agent, which no longer needs it.
  }
}

void Agent::stay_for_others() {
  const auto tell = [this] {
    log_.tell(
        fmt::format("this job has ended; {} is still in use and stays open until it is no longer used (a signal "
                    "ends it)",
                    store_->describe()));
  };
  stay_while_used(*store_, options_.policy.heartbeat_limit, tell);
}

}  // namespace

LaunchResult run_agent(const LaunchOptions& launch, const AgentOptions& options, const KeyValueStorePtr& store) {
  if (options.policy.max_nodes > 1) raise_open_file_limit();  // any agent may become the holder of the ranks' store
  try {
    return Agent(launch, options, store).run();
  } catch (const Error& error) {
    const bool may_be_back = error.kind() == ErrorKind::timeout && options.store_has_holder;
    if (!may_be_back || options.node.holds_store || store->is_held_here()) throw;
    throw CutOff(error.kind(), error.where(), error.message());
  }
}

}  // namespace lockstep::cluster::elastic
