// The main loop of an elastic launcher: joins the job, runs its node's ranks round by round, and reports their ends.
#include <lockstep/base/error.h>
#include <lockstep/cluster/c10d_store_host.h>
#include <lockstep/cluster/elastic/agent.h>
#include <lockstep/cluster/elastic/agent_log.h>
#include <lockstep/cluster/elastic/node_link.h>
#include <lockstep/cluster/elastic/rank_ends.h>
#include <lockstep/cluster/elastic/stay.h>
#include <lockstep/cluster/fork_server/can_fork.h>
#include <lockstep/cluster/fork_server/fork_server.h>
#include <lockstep/cluster/launch_ranks.h>
#include <lockstep/cluster/live_page.h>
#include <lockstep/cluster/processes/event_loop.h>
#include <lockstep/cluster/rank_services.h>

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <memory>
#include <utility>

namespace lockstep::cluster::elastic {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// The interval of polling without an event. Changes of the job are events.
constexpr milliseconds kIdleLook(1000);
/// The time limit for sending the last message; after a timeout nothing else can be done.
constexpr milliseconds kFarewell(3000);
/// The interval of a spare's message that it is a spare.
constexpr std::chrono::seconds kTellSpare(60);

NodeLinkOptions link_options(const AgentOptions& options, const NodeRendezvous& meeting) {
  return {.job = options.job,
          .node = options.node,
          .policy = options.policy,
          .name = meeting.name,
          .find = meeting.find,
          .moves = meeting.moves,
          .heartbeat = options.heartbeat,
          .join_limit = options.join_limit,
          .limit = options.service_limit};
}

class Agent {
 public:
  Agent(const LaunchOptions& launch, const AgentOptions& options, const NodeRendezvous& meeting)
      : launch_(launch),
        options_(options),
        meeting_(meeting),
        page_(launch.page ? std::make_unique<LivePage>(launch, options.policy.max_nodes > 1) : nullptr),
        forks_(launch),
        link_(link_options(options, meeting)),
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
  bool may_join_again() const { return link_.may_join_again(); }

 private:
  using Condition = std::function<bool(const JobView&)>;

  /// The first view that meets the condition. nullopt when the user sends a signal before that.
  std::optional<JobView> wait_for(const Condition& condition);
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
  void tell_of_restart(const JobView& view);

  /// Shows the end of the job on the live page, if there is one.
  void end_page(const LaunchResult& result);

  LaunchResult leave();
  LaunchResult close(const JobView& view);
  LaunchResult end_refused(const JobView& view);
  LaunchResult end_unneeded(LaunchResult result, std::string_view why);
  void depart(bool stays);

  const LaunchOptions& launch_;
  const AgentOptions& options_;
  const NodeRendezvous& meeting_;
  std::unique_ptr<LivePage> page_;  ///< one for all rounds; null: none. First, as a port in use is the user's mistake
  ForkAttempt forks_;               ///< loads the program while the nodes join
  NodeLink link_;
  AgentLog log_;
  const LogFolder logs_;
  /// Kept for the whole life of the agent, so that a signal between two waits reaches the next one.
  SignalInbox inbox_;
  NodeReport said_;
  int looked_at_ = 0;                  ///< the last round that this node took part in, or for which it was not needed
  std::size_t replaced_ = 0;           ///< the number of replaced nodes in it, as of the last look
  int took_part_in_ = 0;               ///< the last round in which this node had a place
  int restarts_ = 0;                   ///< the restarts already reported on the terminal
  milliseconds clock_ahead_{0};        ///< this clock minus the service's, measured when the last round began
  std::optional<int> signal_;          ///< the signal that the user sent
  Launch job_;                         ///< the last round's job
  LaunchResult last_;                  ///< the last round's result; without ends, no ranks of this node ran in it
  std::optional<JobService> service_;  ///< the round's job service, where this is node 0
  std::shared_ptr<SharedLosses> losses_;  ///< that of the job service
};

LaunchResult Agent::run() {
  while (true) {
    const auto view = wait_for(
        [this](const JobView& now) { return now.job.phase == Phase::closed || is_news(now.job) || now.refused; });
    if (!view) return leave();
    const JobState& state = view->job;
    if (state.phase == Phase::closed) return close(*view);
    if (view->refused) return end_refused(*view);
    looked_at_ = state.round;
    replaced_ = state.replaced.size();
    last_ = {};
    clock_ahead_ = link_.clock_ahead();
    tell_of_restart(*view);
    if (view->place) {
      take_part(state, *view->place);
    } else if (state.nodes < options_.policy.max_nodes) {
      log_.tell(fmt::format("round {} of job '{}' runs on {} of at most {} nodes; this node waits for the next round",
                            state.round, options_.job, state.nodes, options_.policy.max_nodes));
    } else {
      log_.tell(
          fmt::format("round {} of job '{}' runs on its {} nodes; this node is a spare, which waits for one of them to "
                      "be lost or to leave. To make it a job of its own, start it with another --rdzv_id",
                      state.round, options_.job, state.nodes));
    }
    if (signal_) return leave();
  }
}

bool Agent::is_news(const JobState& state) const {
  if (state.phase != Phase::running) return false;
  return state.round > looked_at_ || (state.round > took_part_in_ && state.replaced.size() > replaced_);
}

std::optional<JobView> Agent::wait_for(const Condition& condition) {
  const auto since = Clock::now();
  while (true) {
    auto view = link_.view();
    const JobState& state = view.job;
    if (condition(view)) return view;
    // No ranks of this node run here. It may have seen the begin of the round too late.
    const bool untold = said_.stage == Stage::ended || said_.round < state.round;
    if (state.phase == Phase::gathering && untold && said_.stage != Stage::left) say({.round = state.round});
    tell_waiting(state, since);
    Poller poller;
    poller.add(inbox_.fd(), POLLIN, [this] { take_signals(); });
    poller.add(link_.changed_fd(), POLLIN, [] {});
    poller.wait(kIdleLook);
    if (signal_) return std::nullopt;
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
  link_.report(report);
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
    link_.publish_meeting({state.round, here});
  }
  const auto is_over = [&](const JobState& now) { return now.phase != Phase::running || now.round != state.round; };
  const auto view = wait_for([&](const JobView& now) { return is_over(now.job) || now.meeting; });
  if (!view || is_over(view->job)) return;
  if (options_.policy.max_nodes > 1) log_.tell_place(state, node_place, options_.node.ranks);
  if (!state.replaced.empty() || (state.forgiven > 0 && state.forgiven == state.round - 1)) log_.tell(state.why);
  std::vector<Helper> helpers;
  if (ranks_store) helpers.push_back(ranks_store->helper());
  run_ranks(state, node_place, *view->meeting, std::move(helpers));
}

std::optional<ServiceAddress> Agent::offer_service(int ranks) {
  service_.reset();
  losses_.reset();
  if (launch_.replacements <= 0 || ranks < 2 || launch_.output.log_dir == "/dev/null") return std::nullopt;
  auto losses = std::make_shared<SharedLosses>();
  try {
    service_.emplace(options_.address, ranks, losses);
  } catch (const Error& error) {
    log_.tell(fmt::format("lost ranks are not replaced in place: {}", error.message()));
    return std::nullopt;
  }
  losses_ = std::move(losses);
  return service_->address();
}

Replacing Agent::replacing(const JobState& state) {
  Replacing replacing;
  replacing.losses = std::exchange(losses_, nullptr);
  if (replacing.losses) {
    replacing.publish = [this, round = state.round](const auto& losses) { link_.publish_losses({round, losses}); };
  } else if (job_.service) {
    replacing.published = [this, round = state.round] { return link_.losses(round); };
  }
  replacing.allowed = [this] { return link_.take_replacement(); };
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
  launch.stop_fd = link_.over_fd(state.round);
  say({.stage = Stage::running, .round = state.round});
  NodeEnds ends{options_.node.host, "", {}, clock_ahead_};
  try {
    auto forked = forks_.fork(launch, job_, inbox_.fd());
    for (auto& helper : forks_.helpers()) helpers.push_back(std::move(helper));
    last_ = supervise(launch, job_, std::move(forked), replacing(state), std::move(helpers),
                      page_ ? page_->watch(state.round) : Watching());
    ends.ends = last_.ends;
  } catch (const Error& error) {
    ends.error = error.what();
  }
  signal_ = last_.user_signal ? last_.user_signal : obeyed_notice_signal(last_.ends);
  if (signal_) return;
  tell_of_end(state.round, ends);
}

// The service must have the ends of the node's ranks before this node reports that they have ended.
void Agent::tell_of_end(int round, const NodeEnds& ends) {
  const NodeReport report = report_of(ends, round, last_.stopped);
  try {
    const auto state = link_.view().job;
    if (!all_ended_well(ends)) link_.report_ends({round, ends});
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
    log_.tell(fmt::format("this node still waits for a place in job '{}', whose round {} runs on {} nodes, for {} s",
                          options_.job, state.round, state.nodes,
                          std::chrono::duration_cast<std::chrono::seconds>(now - since).count()));
  }
  const bool waits = state.phase == Phase::gathering && said_.stage == Stage::waiting;
  if (!waits || !log_.time_to_tell(since, now)) return;
  const auto& policy = options_.policy;
  const bool varies = policy.min_nodes < policy.max_nodes && state.round == 0;
  const auto in_seconds = [](auto time) { return std::chrono::duration<double>(time).count(); };
  log_.tell(fmt::format("waiting at {} for {}{} nodes of job '{}', for {} s of at most {:.0f} s (join_timeout){}",
                        meeting_.name, policy.min_nodes, varies ? fmt::format(" to {}", policy.max_nodes) : "",
                        options_.job, std::chrono::duration_cast<std::chrono::seconds>(now - since).count(),
                        in_seconds(policy.join_timeout),
                        varies ? fmt::format("; {:.0f} s after the first {} the job begins without the others "
                                             "(last_call_timeout)",
                                             in_seconds(policy.last_call), policy.min_nodes)
                               : ""));
}

void Agent::tell_of_restart(const JobView& view) {
  if (view.job.restarts <= restarts_) return;
  restarts_ = view.job.restarts;
  if (said_.round == 0) return;  // this node joined later
  if (!view.report.empty()) log_.write(view.report);
}

void Agent::end_page(const LaunchResult& result) {
  if (page_) page_->end(result, logs_);
}

// The job ends with the agent that opened its service, and the others learn that before it goes.
LaunchResult Agent::leave() {
  const int signal = *signal_;
  say({.stage = Stage::left, .round = said_.round, .note = "ended by " + signal_name(signal)});
  if (!last_.user_signal && !any_ended_early(last_.ends)) {  // no ranks were running
    last_.exit_code = 128 + signal;
    last_.report = fmt::format("lockstep run: ended by {}\n", signal_name(signal));
  } else if (last_.first_failed) {
    publish_root_cause(last_, job_, logs_, launch_.environment);
  }
  end_page(last_);
  depart(options_.node.runs_service);
  return last_;
}

LaunchResult Agent::close(const JobView& view) {
  const JobState& state = view.job;
  LaunchResult result = last_;
  result.exit_code = state.exit_code;
  result.first_failed = state.first_failed;
  result.report.clear();
  if (state.failed) {
    result.report = view.report;
    if (result.report.empty()) result.report = fmt::format("lockstep run: the job has ended: {}\n", state.why);
    publish_root_cause(result, job_, logs_, launch_.environment);
  } else if (took_part_in_ == 0) {
    result = end_unneeded(
        result,
        fmt::format(
            "job '{}' has ended without an error and without this node, which was a spare: nothing was computed here",
            options_.job));
  }
  say({.stage = Stage::left, .round = said_.round, .note = "the job has ended"});
  end_page(result);
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

LaunchResult Agent::end_refused(const JobView& view) {
  auto result = end_unneeded(last_, fmt::format("job '{}' goes on without this node", options_.job));
  result.exit_code = kUsage;
  result.report = view.report + result.report;
  say({.stage = Stage::left, .round = said_.round, .note = "it was refused"});
  end_page(result);
  depart(false);
  return result;
}

void Agent::depart(bool stays) {
  link_.await_goodbye(kFarewell);
  if (!stays) return;
  const auto tell = [this] {
    log_.tell(
        fmt::format("this job has ended; {} is still in use and stays open until it is no longer used (a signal "
                    "ends it)",
                    meeting_.name));
  };
  stay_while_used(meeting_.users, tell);
}

}  // namespace

LaunchResult run_agent(const LaunchOptions& launch, const AgentOptions& options, const NodeRendezvous& meeting) {
  if (options.policy.max_nodes > 1) raise_open_file_limit();  // any agent may host the ranks' store
  Agent agent(launch, options, meeting);
  try {
    return agent.run();
  } catch (const Error& error) {
    if (!agent.may_join_again()) throw;
    throw CutOff(error.kind(), error.where(), error.message());
  }
}

}  // namespace lockstep::cluster::elastic
