// How workers get in at the desk, and get their seats.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/scheduler/desk.h>
#include <lockstep/scheduler/membership.h>
#include <lockstep/scheduler/secret.h>

#include <utility>

namespace lockstep::scheduler {
namespace {

constexpr auto kSave = std::chrono::seconds(2);

}  // namespace

void Desk::take(Session& session, const Register& request, Time now) {
  if (session.is_worker || session.asking) fail(ErrorKind::data, "message", "it registered twice");
  const std::string& secret = options_.secret;
  if (!secret.empty() && !is_proof(request.proof, secret, "worker " + request.life, session.nonce)) {
    const std::string reason =
        request.proof.empty() ? "it does not know the secret that this scheduler wants (LOCKSTEP_CLUSTER_SECRET_FILE)"
                              : "its secret is another one (LOCKSTEP_CLUSTER_SECRET_FILE)";
    refusals_.note(session.channel.peer(), reason, now);
    post(session, Refused{reason});
    return close_politely(session);
  }
  session.nonce_of_worker = request.nonce;
  const auto peer = session.channel.peer();
  session.asking = Applicant{request, peer.substr(0, peer.rfind(':')), session.id, std::nullopt};
  decide(session, now);
}

void Desk::decide(Session& session, Time now) {
  const Admission admission = admit(roll_, *session.asking, now);
  switch (admission.verdict) {
    case Verdict::welcome:
    case Verdict::welcome_back: return welcome(session, admission, now);
    case Verdict::challenge: return challenge(session, admission.reason, now);
    case Verdict::put_off: return put_off(session, admission.reason);
    case Verdict::refuse: break;
  }
  refusals_.note(fmt::format("worker '{}' at {}", session.asking->request.node_id, session.channel.peer()),
                 admission.reason, now);
  session.asking.reset();
  post(session, Refused{admission.reason});
  close_politely(session);
}

void Desk::challenge(Session& session, const std::string& reason, Time now) {
  if (session.asking->challenged) return;
  session.asking->challenged = now;
  log_info("worker '{}' at {} has to wait: {}", session.asking->request.node_id, session.channel.peer(), reason);
  post(session, Wait{count_present(roll_), roll_.wanted, reason});
  const Member* holder = find_member(roll_, session.asking->request.node_id);
  const auto found = workers_.find(holder->connection);
  if (holder->link == Link::open && found != workers_.end()) post(*found->second, Ping{});
}

// Until this job ends, which closes the connection; the worker then looks for the next scheduler.
void Desk::put_off(Session& session, const std::string& reason) {
  if (std::exchange(session.asking->put_off, true)) return;
  log_info("worker '{}' at {} has to wait: {}", session.asking->request.node_id, session.channel.peer(), reason);
  post(session, Wait{count_present(roll_), roll_.wanted, reason});
}

void Desk::welcome(Session& session, const Admission& admission, Time now) {
  const std::string node_id = session.asking->request.node_id;
  const Member* before = find_member(roll_, admission.replaces.value_or(node_id));
  if (before != nullptr && before->link == Link::open) {
    const auto old = workers_.find(before->connection);
    if (old != workers_.end()) close(*old->second, "another connection took its place");
  }
  // What the others compute with it will not end.
  if (before != nullptr && admission.verdict == Verdict::welcome && before->phase == Phase::running) {
    tell_lost(*before, "another process took its place", true);
  }
  enter(roll_, *session.asking, admission, now);
  changed_ = true;
  session.asking.reset();
  session.is_worker = true;
  const Member& member = *find_member(roll_, node_id);
  log_info("{} at {} is in: {} ({} of {})", describe(member), session.channel.peer(), admission.reason,
           count_present(roll_), roll_.wanted);
  if (member.phase != Phase::waiting) return tell_seat(session, member);
  post(session, Wait{count_present(roll_), roll_.wanted, ""});
  seat(now);
}

void Desk::seat(Time now) {
  if (!seat_all(roll_, random_token(), now)) return;
  changed_ = true;
  save_if_changed();
  if (writer_) writer_->wait_for(kSave);  // a rank that was told should not be forgotten
  for (const Member& member : roll_.members) {
    log_info("{} at {} has rank {} of {}, generation {}", describe(member), member.address, *member.rank, roll_.wanted,
             roll_.generation);
    tell_seat(*workers_.at(member.connection), member);
  }
}

void Desk::tell_seat(Session& session, const Member& member) {
  Seated seat = seat_of(roll_, member);
  if (!options_.secret.empty()) seat.proof = prove(options_.secret, "scheduler", session.nonce_of_worker);
  post(session, seat);
  if (!roll_.store_host.empty() && member.generation == roll_.generation) {
    post(session, StoreAt{roll_.generation, roll_.store_host, roll_.store_port});
  }
}

void Desk::decide_pending(Time now) {
  std::vector<std::shared_ptr<Session>> asking;
  for (const auto& [id, session] : workers_) {
    if (session->asking) asking.push_back(session);
  }
  for (const auto& session : asking) decide(*session, now);
}

}  // namespace lockstep::scheduler
