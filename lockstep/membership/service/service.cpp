// The steps of the service: messages of workers, ends of connections, and what is due at a time.
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/membership/decisions.h>
#include <lockstep/membership/service/service.h>
#include <lockstep/membership/service/state_writer.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::membership {
namespace {

constexpr auto kTellWaiting = std::chrono::seconds(10);
constexpr auto kAway = std::chrono::seconds(3);
constexpr std::size_t kDecisions = 10;
constexpr auto kMostToReport = std::chrono::seconds(10);  // for a worker that hangs to report its stack

/// One step: what it changes, and what comes out of it.
class ServiceStep {
 public:
  ServiceStep(ServiceState& state, Time now, const NewToken& new_token)
      : state_(state), membership_(state.membership), now_(now), new_token_(new_token) {}

  /// Before each input.
  void excuse_standstill();
  void take(const Opened& opened);
  void take(const Received& received);
  void take(const Closed& closed);
  void take(const Tick& tick);

  std::vector<ServiceOutput> outputs() { return std::move(outputs_); }

 private:
  void take(ConnectionId id, const Register& request);
  void take(ConnectionId id, const StoreAt& store);
  void take(ConnectionId id, const Heartbeat& heartbeat);
  void take(ConnectionId id, const Again& again);
  void take(ConnectionId id, const Leave& leave);

  // Admission.
  void decide(ConnectionId id);
  void decide_pending();
  void challenge(ConnectionId id, const std::string& reason);
  void put_off(ConnectionId id, const std::string& reason);
  void welcome(ConnectionId id, const Admission& admission);
  void assign();
  void send_assignment(const Member& member);
  void send_loss(const Member& member);

  // Losses, and the end.
  void expel_hanging();
  void finish(Member& member, const std::string& complete);
  void take_back_loss(Peer& peer, const Member& member);
  void finish_waiting();
  bool may_be_of_next_job(const Peer& peer) const;
  void send_waits();
  void send_lost(const Member& member, const std::string& reason, bool certain);
  void send_running(const FromScheduler& message);
  void report_lost_ranks();
  void save_if_changed(bool first);

  Member& member_of(ConnectionId id);
  Peer* find_peer(ConnectionId id);
  void send(ConnectionId id, FromScheduler message);
  void dismiss(ConnectionId id, FromScheduler last_message);
  void close(ConnectionId id, std::string reason = {});
  template <typename Output>
  void put(Output output) {
    outputs_.emplace_back(std::move(output));
  }
  void log(LogLevel level, std::string text) { put(LogLine{level, std::move(text)}); }
  void note_decision(std::string text) {
    state_.decisions.push_back({now_, std::move(text)});
    if (state_.decisions.size() > kDecisions) state_.decisions.pop_front();
  }
  /// A loss, or what follows from one. Under a launcher only for debugging, because the launcher and its ranks report
  /// the same.
  void log_event(std::string text) {
    note_decision(text);
    log(state_.options.programs_follow ? LogLevel::debug : LogLevel::warning, std::move(text));
  }

  ServiceState& state_;
  Membership& membership_;
  const Time now_;
  const NewToken& new_token_;
  std::vector<ServiceOutput> outputs_;
};

Peer* ServiceStep::find_peer(ConnectionId id) {
  const auto found = state_.peers.find(id);
  return found == state_.peers.end() ? nullptr : &found->second;
}

Member& ServiceStep::member_of(ConnectionId id) {
  if (auto* member = find_connection(membership_, id)) return *member;
  fail(ErrorKind::data, "message", "it arrived before the process registered");
}

void ServiceStep::send(ConnectionId id, FromScheduler message) {
  if (find_peer(id) != nullptr) put(Send{id, std::move(message)});
}

void ServiceStep::close(ConnectionId id, std::string reason) {
  auto* peer = find_peer(id);
  if (peer == nullptr || peer->cut) return;
  peer->closing = true;
  peer->cut = !reason.empty();
  put(Close{id, std::move(reason)});
}

void ServiceStep::dismiss(ConnectionId id, FromScheduler last_message) {
  send(id, std::move(last_message));
  close(id);
}

void ServiceStep::take(const Opened& opened) {
  auto& peer = state_.peers[opened.connection];
  peer.address = opened.address;
  peer.nonce = new_token_();
  send(opened.connection,
       Hello{kProtocol, membership_.job, peer.nonce, !state_.options.secret.empty(), state_.options.watched});
}

void ServiceStep::take(const Received& received) {
  auto* peer = find_peer(received.connection);
  if (peer == nullptr || peer->closing) return;
  if (peer->asking) peer->asking->heard = now_;
  if (auto* member = find_connection(membership_, received.connection)) member->heard = now_;
  std::visit([&](const auto& one) { take(received.connection, one); }, received.message);
}

void ServiceStep::take(ConnectionId id, const StoreAt& store) {
  const Member& member = member_of(id);
  if (store.generation < membership_.generation) return;  // it does not compute with the others any more
  if (member.rank != 0 || store.generation != membership_.generation || member.phase != Phase::running) {
    fail(ErrorKind::data, "message", "a store of generation {} by {} does not belong to generation {}",
         store.generation, describe(member), membership_.generation);
  }
  membership_.store_host = store.host;
  membership_.store_port = store.port;
  state_.changed = true;
  send_running(store);
}

void ServiceStep::take(ConnectionId id, const Heartbeat& heartbeat) {
  if (find_peer(id)->asking) return;  // it waits for a decision
  Member& member = member_of(id);
  if (heartbeat.step && heartbeat.step != member.step) {
    member.step = heartbeat.step;
    member.advanced = now_;
  }
  if (heartbeat.step_us && heartbeat.own_us) {
    member.step_time =
        StepTime{std::chrono::microseconds(*heartbeat.step_us), std::chrono::microseconds(*heartbeat.own_us)};
  }
  if (!state_.options.watched || !heartbeat.page) return;
  member.page = heartbeat.page;
  member.memory = heartbeat.memory;
}

void ServiceStep::finish(Member& member, const std::string& complete) {
  note_leave(membership_, member, {true, ""}, now_);
  state_.changed = true;
  dismiss(member.connection, Ended{true, complete});
}

// Some workers may lose another one in the last operation of all, and request the next generation before the first
// worker that completed it reports that. No process takes the lost worker's place any more. Ranks of a launcher that
// were never in the job are replacements, which the launcher ends.
void ServiceStep::finish_waiting() {
  const auto complete = find_completion(membership_);
  if (!complete) return;
  for (Member& member : membership_.members) {
    if (member.link != Link::open || member.phase != Phase::waiting) continue;
    if (membership_.programs_follow && member.generation == 0) continue;
    if (find_peer(member.connection) != nullptr) finish(member, *complete);
  }
}

// A process that was ended as hanging has shown that it does not hang.
void ServiceStep::take_back_loss(Peer& peer, const Member& member) {
  if (!peer.expelled) return;
  peer.expelled.reset();
  put(ProcessBack{member.rank.value_or(-1), member.pid});
}

void ServiceStep::take(ConnectionId id, const Again& again) {
  if (find_peer(id)->asking) return;  // it waits for a decision
  Member& member = member_of(id);
  take_back_loss(*find_peer(id), member);
  if (!membership_.recovery) {
    return dismiss(id, Ended{false, "this scheduler was started without MS_ENABLE_RECOVERY=1"});
  }
  if (const auto complete = find_completion(membership_)) return finish(member, *complete);
  if (!note_again(membership_, member, again, now_)) return;
  state_.changed = true;
  log_event(fmt::format("{} cannot continue in generation {}, and waits for the next: {}", describe(member),
                        again.generation, again.reason));
  send_lost(member, again.reason, true);
  assign();
}

void ServiceStep::take(ConnectionId id, const Leave& leave) {
  const Ended confirmation{leave.ok, leave.error};
  if (find_peer(id)->asking) return dismiss(id, confirmation);
  Member& member = member_of(id);
  // Its launcher replaces it after its end.
  if (!leave.ok && membership_.programs_follow && find_peer(id)->expelled) {
    log(LogLevel::warning, fmt::format("{}: {}", describe(member), leave.error));
    return dismiss(id, confirmation);
  }
  if (leave.ok) take_back_loss(*find_peer(id), member);
  note_leave(membership_, member, leave, now_);
  state_.changed = true;
  if (leave.ok) {
    log(LogLevel::info, fmt::format("{} is done", describe(member)));
  } else {
    log_event(fmt::format("{} failed: {}", describe(member), leave.error));
    // Other ranks of a launcher get the same error, or read it in the store. This rank is not replaced.
    if (!membership_.programs_follow) send_lost(member, leave.error, true);
  }
  dismiss(id, confirmation);
}

void ServiceStep::take(const Closed& closed) {
  state_.peers.erase(closed.connection);
  const Member* member = find_connection(membership_, closed.connection);
  const bool was_running = member != nullptr && member->phase == Phase::running;
  const auto lost = member != nullptr ? std::optional(*member) : std::nullopt;
  const auto what = note_closed(membership_, closed.connection, closed.reason, now_);
  if (!what) return;
  state_.changed = true;
  log_event(*what);
  if (!was_running) return;
  if (closed.by_service) {
    put(ProcessLost{lost->rank.value_or(-1), lost->pid});
    note_over(membership_, now_);
  }
  send_lost(*lost, closed.reason, closed.by_service);
}

void ServiceStep::report_lost_ranks() {
  if (membership_.generation == 0) return;
  auto lost = lost_ranks(membership_);
  if (lost == state_.known_lost) return;
  put(RanksLost{lost});
  state_.known_lost = std::move(lost);
}

void ServiceStep::send_lost(const Member& member, const std::string& reason, bool certain) {
  send_running(Lost{membership_.generation, member.node_id, member.rank.value_or(0), reason, certain});
}

void ServiceStep::send_running(const FromScheduler& message) {
  for (const Member& member : membership_.members) {
    if (member.link == Link::open && member.phase == Phase::running) send(member.connection, message);
  }
}

// Sends hanging workers the request to end. Such a worker answers with its stack (Leave) and ends; then its place is
// free.
void ServiceStep::expel_hanging() {
  for (const auto id : find_hanging(membership_, now_)) {
    auto* peer = find_peer(id);
    if (peer == nullptr) continue;
    if (peer->expelled) {
      if (now_ - *peer->expelled >= kMostToReport) close(id, "it hangs, and does not end");
      continue;
    }
    peer->expelled = now_;
    const Member& member = *find_connection(membership_, id);
    const auto what =
        fmt::format("{} hangs: other workers cannot continue, and it has not reported the same for {:.0f} s",
                    describe(member), seconds_in(now_ - *hang_begins(membership_)));
    note_decision(what);
    log(LogLevel::warning, what);
    put(ProcessLost{member.rank.value_or(-1), member.pid});
    send(id, Ended{false,
                   membership_.recovery ? "this worker hangs, and another one takes its place"
                                        : "this worker hangs, and the job cannot go on without it",
                   membership_.over.has_value()});
  }
}

void ServiceStep::send_waits() {
  if (now_ - state_.waits_sent < kTellWaiting) return;
  state_.waits_sent = now_;
  for (const Member& member : membership_.members) {
    if (member.link != Link::open || member.phase != Phase::waiting) continue;
    send(member.connection, Wait{count_present(membership_), membership_.wanted, describe_missing(membership_)});
  }
}

// Such a process gets no end of this job, and connects to the next service. What has not registered yet may be one.
bool ServiceStep::may_be_of_next_job(const Peer& peer) const {
  if (peer.is_worker) return false;
  return peer.asking ? peer.asking->put_off : membership_.programs_follow || !membership_.recovery;
}

// A scheduler that was stopped, or got no CPU time, has not read the messages in its sockets; and a clock may jump.
void ServiceStep::excuse_standstill() {
  const auto away = now_ - std::exchange(state_.stepped, now_);
  if (away <= kAway || state_.ended) return;
  log(LogLevel::warning, fmt::format("the scheduler did nothing for {:.0f} s; this time does not count towards the "
                                     "heartbeat limit of any worker",
                                     seconds_in(away)));
  excuse_missed_heartbeats(membership_, away);
  for (auto& [id, peer] : state_.peers) {
    if (peer.expelled) *peer.expelled += away;
    if (!peer.asking) continue;
    peer.asking->heard += away;
    if (peer.asking->challenged) *peer.asking->challenged += away;
  }
}

void ServiceStep::take(const Tick& /*tick*/) {
  if (state_.ended) return;
  for (const auto id : find_missed_heartbeats(membership_, now_)) {
    close(id, fmt::format("it sent nothing for {:.0f} s", seconds_in(membership_.limits.heartbeat_limit)));
  }
  report_lost_ranks();
  expel_hanging();
  decide_pending();
  finish_waiting();
  send_waits();
  auto ending = find_ending(membership_, now_);
  save_if_changed(false);
  if (!ending) return;
  for (auto& [id, peer] : state_.peers) {
    if (!may_be_of_next_job(peer)) send(id, Ended{ending->ok, ending->reason});
    close(id);
  }
  state_.ended = true;
  put(JobEnded{std::move(*ending)});
}

void ServiceStep::save_if_changed(bool first) {
  if (std::exchange(state_.changed, false)) put(Save{first});
}

// ---- admission

void ServiceStep::take(ConnectionId id, const Register& request) {
  Peer& peer = *find_peer(id);
  if (peer.is_worker || peer.asking) fail(ErrorKind::data, "message", "it registered twice");
  const std::string& secret = state_.options.secret;
  if (!secret.empty() && !is_proof(request.proof, secret, "worker " + request.life, peer.nonce)) {
    const std::string reason =
        request.proof.empty()
            ? "it does not have the secret that this scheduler requires (LOCKSTEP_CLUSTER_SECRET_FILE)"
            : "its secret is not that of this scheduler (LOCKSTEP_CLUSTER_SECRET_FILE)";
    put(Refusal{peer.address, reason});
    return dismiss(id, Refused{reason});
  }
  peer.nonce_of_worker = request.nonce;
  peer.asking = Applicant{request, peer.address.substr(0, peer.address.rfind(':')), id, std::nullopt};
  decide(id);
}

void ServiceStep::decide(ConnectionId id) {
  Peer& peer = *find_peer(id);
  const Admission admission = admit(membership_, *peer.asking, now_);
  switch (admission.verdict) {
    case Verdict::welcome:
    case Verdict::welcome_back: return welcome(id, admission);
    case Verdict::challenge: return challenge(id, admission.reason);
    case Verdict::put_off: return put_off(id, admission.reason);
    case Verdict::refuse: break;
  }
  const auto who = fmt::format("worker '{}' at {}", peer.asking->request.node_id, peer.address);
  note_decision(fmt::format("refused {}: {}", who, admission.reason));
  put(Refusal{who, admission.reason});
  peer.asking.reset();
  dismiss(id, Refused{admission.reason});
}

void ServiceStep::challenge(ConnectionId id, const std::string& reason) {
  Peer& peer = *find_peer(id);
  const auto& node_id = peer.asking->request.node_id;
  const Member* holder = find_member(membership_, node_id);
  const std::string life = holder != nullptr ? holder->life : "";
  if (peer.asking->challenged && peer.asking->challenged_life == life) return;
  peer.asking->challenged = now_;
  peer.asking->challenged_life = life;
  log(LogLevel::info, fmt::format("worker '{}' at {} has to wait: {}", node_id, peer.address, reason));
  send(id, Wait{count_present(membership_), membership_.wanted, reason});
  if (holder != nullptr && holder->link == Link::open) send(holder->connection, Ping{});
}

// Makes a worker wait until this job ends. That closes the connection, and the worker connects to the next scheduler.
void ServiceStep::put_off(ConnectionId id, const std::string& reason) {
  Peer& peer = *find_peer(id);
  if (std::exchange(peer.asking->put_off, true)) return;
  log(LogLevel::info,
      fmt::format("worker '{}' at {} has to wait: {}", peer.asking->request.node_id, peer.address, reason));
  send(id, Wait{count_present(membership_), membership_.wanted, reason});
}

void ServiceStep::welcome(ConnectionId id, const Admission& admission) {
  Peer& peer = *find_peer(id);
  const Applicant applicant = *std::exchange(peer.asking, std::nullopt);
  const auto& node_id = applicant.request.node_id;
  const Member* before = find_member(membership_, admission.replaces.value_or(node_id));
  if (before != nullptr && before->link == Link::open) close(before->connection, "another connection took its place");
  // Pending operations of the other workers with the old process cannot succeed.
  const bool computed = before != nullptr && (before->phase == Phase::running || is_outdated(membership_, *before));
  const bool is_lost = computed && admission.verdict == Verdict::welcome;
  if (is_lost) send_lost(*before, "another process took its place", true);
  const bool was_over = membership_.over.has_value();
  enter(membership_, applicant, admission, now_);
  state_.changed = true;
  peer.is_worker = true;
  const Member& member = *find_member(membership_, node_id);
  const bool is_news = !is_lost && !was_over && membership_.over && member.phase == Phase::waiting;
  if (is_news) send_lost(member, "it waits for the next generation", true);
  const auto what = fmt::format("{} at {} has registered: {} ({} of {})", describe(member), peer.address,
                                admission.reason, count_present(membership_), membership_.wanted);
  if (admission.replaces || membership_.generation > 0) note_decision(what);
  log(LogLevel::info, what);
  if (admission.verdict == Verdict::welcome_back && member.rank) put(ProcessBack{*member.rank, member.pid});
  if (member.phase != Phase::waiting) {
    send_assignment(member);
    return send_loss(member);
  }
  send(id, Wait{count_present(membership_), membership_.wanted, describe_missing(membership_)});
  assign();
}

void ServiceStep::assign() {
  if (!assign_ranks(membership_, new_token_(), now_)) return;
  state_.changed = true;
  note_decision(fmt::format("generation {} begins with {} workers", membership_.generation, membership_.wanted));
  save_if_changed(true);  // a rank must be saved before its worker gets it
  for (const Member& member : membership_.members) {
    log(LogLevel::info, fmt::format("{} at {} has rank {} of {}, generation {}", describe(member), member.address,
                                    *member.rank, membership_.wanted, membership_.generation));
    send_assignment(member);
  }
}

void ServiceStep::send_assignment(const Member& member) {
  RankAssignment assignment = assignment_of(membership_, member);
  const auto* peer = find_peer(member.connection);
  const std::string& secret = state_.options.secret;
  if (peer != nullptr && !secret.empty()) assignment.proof = prove(secret, "scheduler", peer->nonce_of_worker);
  send(member.connection, assignment);
  if (!membership_.store_host.empty() && member.generation == membership_.generation) {
    send(member.connection, StoreAt{membership_.generation, membership_.store_host, membership_.store_port});
  }
}

// What a worker has missed while it was not connected: that its generation is broken, by one worker for all. A rank of
// a launcher that failed has reported its error to the others itself.
void ServiceStep::send_loss(const Member& member) {
  if (member.generation < membership_.generation && member.phase == Phase::running) {
    return send(member.connection,
                Lost{member.generation, member.node_id, member.rank.value_or(0),
                     fmt::format("generation {} has begun without it", membership_.generation), true});
  }
  if (!membership_.broken || member.generation != membership_.generation || member.phase != Phase::running) return;
  const Member* away = nullptr;
  for (const Member& other : membership_.members) {
    if (is_outdated(membership_, other)) continue;  // it may compute in this generation as well
    const bool failed = other.phase == Phase::failed && !membership_.programs_follow;
    if (other.phase == Phase::waiting || failed) {
      return send(member.connection, Lost{membership_.generation, other.node_id, other.rank.value_or(0),
                                          "it cannot continue in this generation", true});
    }
    if (other.phase == Phase::running && other.link == Link::closed) away = &other;
  }
  if (away == nullptr) return;
  send(member.connection,
       Lost{membership_.generation, away->node_id, away->rank.value_or(0), "its connection has ended", false});
}

// A silent one may have died while it waited. It gets no place before it sends a heartbeat: the others would wait for
// it for a heartbeat limit, and one that lives may wait for the same place.
void ServiceStep::decide_pending() {
  std::vector<ConnectionId> asking;
  for (const auto& [id, peer] : state_.peers) {
    if (peer.asking && now_ - peer.asking->heard < membership_.limits.heartbeat_limit / 2) asking.push_back(id);
  }
  for (const auto id : asking) decide(id);
}

Membership new_membership(const JobOptions& options, std::string job, Time now) {
  Membership membership;
  membership.job = std::move(job);
  membership.wanted = options.workers;
  membership.recovery = options.recovery;
  membership.programs_follow = options.programs_follow;
  membership.limits = options.limits;
  membership.changed = now;
  return membership;
}

}  // namespace

ServiceState begin_service(const JobOptions& options, const std::optional<std::string>& saved, Time now,
                           const NewToken& new_token) {
  ServiceState state;
  state.options = options;
  state.membership = new_membership(options, new_token(), now);
  state.started = state.stepped = state.waits_sent = now;
  if (!saved) return state;
  auto membership = state.membership;
  read_state(*saved, membership, now);
  if (state_of(membership) != State::exit) state.membership = std::move(membership);
  return state;
}

std::vector<ServiceOutput> step(ServiceState& state, const ServiceInput& input, Time now, const NewToken& new_token) {
  ServiceStep one(state, now, new_token);
  one.excuse_standstill();
  std::visit([&](const auto& each) { one.take(each); }, input);
  return one.outputs();
}

bool has_registered(const ServiceState& state, ConnectionId connection) {
  const auto found = state.peers.find(connection);
  return found != state.peers.end() && (found->second.is_worker || found->second.asking);
}

bool is_admitted(const ServiceState& state, ConnectionId connection) {
  const auto found = state.peers.find(connection);
  return found != state.peers.end() && found->second.is_worker;
}

}  // namespace lockstep::membership
