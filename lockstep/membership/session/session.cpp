// The steps of a worker's session: registration, ranks, losses, and what is sent again on each connection.
#include <lockstep/base/crypto.h>
#include <lockstep/membership/session/session.h>

#include <fmt/format.h>

#include <type_traits>
#include <utility>

namespace lockstep::membership {
namespace {

Register registration(const SessionState& state, const Hello& hello) {
  const auto& facts = state.facts;
  Register request;
  request.node_id = facts.node_id;
  request.named = facts.named;
  request.life = facts.life;
  request.host = facts.host;
  request.machine = facts.machine;
  request.pid = facts.pid;
  request.server = facts.server;
  if (facts.servers > 0) request.servers = facts.servers;
  if (state.assignment) {
    request.job = state.job;
    request.generation = state.assignment->generation;
    request.rank = state.assignment->rank;
    request.store_key = state.assignment->store_key;
  }
  if (facts.turn > 0) request.turn = facts.turn;
  request.nonce = facts.nonce;
  if (hello.secret && !facts.secret.empty()) request.proof = prove(facts.secret, "worker " + facts.life, hello.nonce);
  return request;
}

/// Keeps the first loss of a generation.
void note(std::optional<LostGeneration>& loss, std::int64_t generation, const std::string& why) {
  if (!loss || loss->generation != generation) loss = {generation, why};
}

/// One step: what it changes, and what comes out of it.
class SessionStep {
 public:
  explicit SessionStep(SessionState& state) : state_(state), facts_(state.facts) {}

  void take(const FromScheduler& message) {
    if (!state_.connected && !std::holds_alternative<Hello>(message)) {
      fail(ErrorKind::data, "scheduler", "its first message is not the hello message");
    }
    std::visit([this](const auto& each) { take(each); }, message);
  }
  void take(const Disconnected& end);
  void take(const StoreOpened& opened) {
    state_.own_store = opened.store;
    say(opened.store);
  }
  void take(const Again& again) {
    const auto& assignment = state_.assignment;
    if (state_.leave || state_.over || state_.again || !assignment || assignment->generation != again.generation)
      return;
    state_.again = again;
    say(again);
  }
  void take(const Leave& leave) {
    if (state_.leave || state_.over) return;
    state_.leave = leave;
    say(leave);
  }

  std::vector<SessionOutput> outputs() { return std::move(outputs_); }

 private:
  void take(const Hello& hello);
  void take(const Wait& wait);
  void take(const Refused& refused);
  void take(const RankAssignment& assignment);
  void take(const StoreAt& store) { state_.store = store; }
  void take(const Lost& lost);
  void take(const Ping& /*ping*/) { say(Heartbeat{}); }
  void take(const Ended& ended);

  void give_up(ErrorKind kind, std::string why);
  bool computes() const { return state_.assignment && !state_.again && !state_.leave; }
  void break_generation(const std::string& why);
  void say(FromWorker message) {
    if (state_.connected) outputs_.emplace_back(std::move(message));
  }
  void log(std::string text) { outputs_.emplace_back(SessionLine{LogLevel::warning, std::move(text)}); }

  SessionState& state_;
  const SessionFacts& facts_;
  std::vector<SessionOutput> outputs_;
};

void SessionStep::take(const Hello& hello) {
  if (std::exchange(state_.connected, true)) return;
  say(registration(state_, hello));
  state_.greeting_job = hello.job;
  state_.watched = hello.watched;
}

void SessionStep::take(const Disconnected& end) {
  if (end.final) give_up(ErrorKind::environment, fmt::format("{}: {}", facts_.where, end.why));
  const bool was_connected = std::exchange(state_.connected, false);
  if (was_connected && state_.assignment && !state_.over && !state_.leave) {
    log(fmt::format("{} at {} is lost ({}); the connection is tried again, and training goes on", service_name(facts_),
                    facts_.where, end.why));
  }
  state_.trouble = end.why;
}

void SessionStep::give_up(ErrorKind kind, std::string why) {
  if (state_.over) return;
  if (state_.assignment && !state_.leave) log(fmt::format("{}; training goes on without the scheduler", why));
  state_.over = {kind, std::move(why)};
}

void SessionStep::take(const Refused& refused) {
  give_up(ErrorKind::environment, fmt::format("{} at {} refuses worker '{}': {}", service_name(facts_), facts_.where,
                                              facts_.node_id, refused.reason));
}

void SessionStep::take(const Ended& ended) {
  if (ended.hangs) {
    // Otherwise it has noticed the loss meanwhile: the service gets its report, and takes this back.
    if (!state_.again && !state_.leave) outputs_.emplace_back(MustEnd{ended.reason});
    return;
  }
  state_.complete = ended.ok;
  give_up(ErrorKind::peer_lost, fmt::format("{} at {} has ended the job: {}", service_name(facts_), facts_.where,
                                            ended.ok ? "all workers are done" : ended.reason));
}

// Operations of the present generation cannot succeed.
void SessionStep::break_generation(const std::string& why) {
  note(state_.lost, state_.assignment->generation, why);
  note(state_.broken, state_.assignment->generation, why);
  outputs_.emplace_back(GenerationBroken{why});
}

// The service has given the place of this process to another one while it was disconnected, or may have to.
void SessionStep::take(const Wait& wait) {
  state_.wait = wait;
  if (computes()) break_generation("this worker has to wait for the next generation");
}

void SessionStep::take(const RankAssignment& assignment) {
  if (!facts_.secret.empty() && !is_proof(assignment.proof, facts_.secret, "scheduler", facts_.nonce)) {
    return give_up(
        ErrorKind::environment,
        fmt::format("the server at {} does not have the secret (LOCKSTEP_CLUSTER_SECRET_FILE)", facts_.where));
  }
  if (!state_.assignment || state_.assignment->generation != assignment.generation) {
    if (computes()) break_generation(fmt::format("generation {} has begun", assignment.generation));
    state_.store.reset();
    state_.assignment = assignment;
  }
  state_.job = state_.greeting_job;
  if (state_.again && state_.again->generation < assignment.generation) state_.again.reset();
  // Messages that a new service, or this one on an earlier connection, may not have received.
  if (state_.own_store && state_.own_store->generation == assignment.generation) say(*state_.own_store);
  if (state_.again && !state_.leave) say(*state_.again);
  if (state_.leave) say(*state_.leave);
}

void SessionStep::take(const Lost& lost) {
  const auto why = facts_.of_launcher
                       ? fmt::format("rank {} is lost: {}", lost.rank, lost.reason)
                       : fmt::format("worker '{}' (rank {}) is lost: {}", lost.node_id, lost.rank, lost.reason);
  log(fmt::format("{} reports that {}", service_name(facts_), why));
  if (!state_.assignment || lost.generation != state_.assignment->generation) return;
  if (lost.certain) return break_generation(why);
  note(state_.lost, lost.generation, why);
}

}  // namespace

std::vector<SessionOutput> step(SessionState& state, const SessionInput& input) {
  SessionStep one(state);
  std::visit([&](const auto& each) { one.take(each); }, input);
  return one.outputs();
}

const char* service_name(const SessionFacts& facts) {
  return facts.of_launcher ? "the launcher's job service" : "the scheduler";
}

std::optional<std::string> loss_in(const SessionState& state, std::int64_t place) {
  const auto& loss = state.facts.recovers ? state.lost : state.broken;
  return loss && loss->generation == place ? std::optional(loss->why) : std::nullopt;
}

std::string describe_wait(const SessionState& state) {
  const auto& facts = state.facts;
  const auto& wait = state.wait;
  if (!state.connected) {
    return fmt::format("{} at {} ({})", service_name(facts), facts.where,
                       state.trouble.empty() ? "no answer yet" : state.trouble);
  }
  if (!wait) return fmt::format("{} at {} to answer", service_name(facts), facts.where);
  if (facts.of_launcher) {
    const auto missing = wait->reason.empty() ? "" : ": " + wait->reason;
    return fmt::format("the other ranks, {} of {} have registered{}", wait->present, wait->wanted, missing);
  }
  if (!wait->reason.empty()) return fmt::format("its node id '{}': {}", facts.node_id, wait->reason);
  return fmt::format("the other workers, {} of {} have registered", wait->present, wait->wanted);
}

}  // namespace lockstep::membership
