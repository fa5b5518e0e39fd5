// Registration of workers at the service, and assignment of their ranks.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/secret.h>
#include <lockstep/membership/decisions.h>
#include <lockstep/membership/service/service.h>

#include <utility>

namespace lockstep::membership {
namespace {

constexpr auto kSave = std::chrono::seconds(2);

}  // namespace

void SchedulerService::take(Connection& connection, const Register& request, Time now) {
  if (connection.is_worker || connection.asking) fail(ErrorKind::data, "message", "it registered twice");
  const std::string& secret = options_.secret;
  if (!secret.empty() && !is_proof(request.proof, secret, "worker " + request.life, connection.nonce)) {
    const std::string reason = request.proof.empty()
                                   ? "it does not have the secret that this scheduler requires "
                                     "(LOCKSTEP_CLUSTER_SECRET_FILE)"
                                   : "its secret is not that of this scheduler (LOCKSTEP_CLUSTER_SECRET_FILE)";
    refusals_.note(connection.channel.peer(), reason, now);
    return dismiss(connection, Refused{reason});
  }
  connection.nonce_of_worker = request.nonce;
  const auto peer = connection.channel.peer();
  connection.asking = Applicant{request, peer.substr(0, peer.rfind(':')), connection.id, std::nullopt};
  decide(connection, now);
}

void SchedulerService::decide(Connection& connection, Time now) {
  const Admission admission = admit(membership_, *connection.asking, now);
  switch (admission.verdict) {
    case Verdict::welcome:
    case Verdict::welcome_back: return welcome(connection, admission, now);
    case Verdict::challenge: return challenge(connection, admission.reason, now);
    case Verdict::put_off: return put_off(connection, admission.reason);
    case Verdict::refuse: break;
  }
  refusals_.note(fmt::format("worker '{}' at {}", connection.asking->request.node_id, connection.channel.peer()),
                 admission.reason, now);
  connection.asking.reset();
  dismiss(connection, Refused{admission.reason});
}

void SchedulerService::challenge(Connection& connection, const std::string& reason, Time now) {
  if (connection.asking->challenged) return;
  connection.asking->challenged = now;
  log_info("worker '{}' at {} has to wait: {}", connection.asking->request.node_id, connection.channel.peer(), reason);
  post(connection, Wait{count_present(membership_), membership_.wanted, reason});
  const Member* holder = find_member(membership_, connection.asking->request.node_id);
  const auto found = workers_.find(holder->connection);
  if (holder->link == Link::open && found != workers_.end()) post(*found->second, Ping{});
}

// Makes a worker wait until this job ends. That closes the connection, and the worker connects to the next scheduler.
void SchedulerService::put_off(Connection& connection, const std::string& reason) {
  if (std::exchange(connection.asking->put_off, true)) return;
  log_info("worker '{}' at {} has to wait: {}", connection.asking->request.node_id, connection.channel.peer(), reason);
  post(connection, Wait{count_present(membership_), membership_.wanted, reason});
}

void SchedulerService::welcome(Connection& connection, const Admission& admission, Time now) {
  const std::string node_id = connection.asking->request.node_id;
  const Member* before = find_member(membership_, admission.replaces.value_or(node_id));
  if (before != nullptr && before->link == Link::open) {
    const auto old = workers_.find(before->connection);
    if (old != workers_.end()) close(*old->second, "another connection took its place");
  }
  // Pending operations of the other workers with the old process cannot succeed.
  if (before != nullptr && admission.verdict == Verdict::welcome && before->phase == Phase::running) {
    tell_lost(*before, "another process took its place", true);
  }
  enter(membership_, *connection.asking, admission, now);
  changed_ = true;
  connection.asking.reset();
  connection.is_worker = true;
  const Member& member = *find_member(membership_, node_id);
  log_info("{} at {} has registered: {} ({} of {})", describe(member), connection.channel.peer(), admission.reason,
           count_present(membership_), membership_.wanted);
  if (admission.verdict == Verdict::welcome_back && member.rank && options_.on_back) {
    options_.on_back(*member.rank, member.pid);
  }
  if (member.phase != Phase::waiting) return tell_assignment(connection, member);
  post(connection, Wait{count_present(membership_), membership_.wanted, describe_missing(membership_)});
  assign(now);
}

void SchedulerService::assign(Time now) {
  if (!assign_ranks(membership_, random_token(), now)) return;
  changed_ = true;
  save_if_changed();
  if (writer_) writer_->wait_for(kSave);  // a rank must be saved before its worker gets it
  for (const Member& member : membership_.members) {
    log_info("{} at {} has rank {} of {}, generation {}", describe(member), member.address, *member.rank,
             membership_.wanted, membership_.generation);
    tell_assignment(*workers_.at(member.connection), member);
  }
}

void SchedulerService::tell_assignment(Connection& connection, const Member& member) {
  RankAssignment assignment = assignment_of(membership_, member);
  if (!options_.secret.empty()) assignment.proof = prove(options_.secret, "scheduler", connection.nonce_of_worker);
  post(connection, assignment);
  if (!membership_.store_host.empty() && member.generation == membership_.generation) {
    post(connection, StoreAt{membership_.generation, membership_.store_host, membership_.store_port});
  }
}

void SchedulerService::decide_pending(Time now) {
  std::vector<std::shared_ptr<Connection>> asking;
  for (const auto& [id, connection] : workers_) {
    if (connection->asking) asking.push_back(connection);
  }
  for (const auto& connection : asking) decide(*connection, now);
}

}  // namespace lockstep::membership
