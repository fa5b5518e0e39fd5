// The decision about a LockstepJob in steps: accept, suspend, succeed, fail or restart, make Pods, describe status.
#include <apps/operator/decide/decide.h>
#include <apps/operator/decide/objects.h>
#include <apps/operator/decide/pod_failures.h>
#include <apps/operator/job/names.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

namespace lockstep::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kMostNames = 5;  // in the message of an event

/// One decision. run() calls its steps in order; each leaves `status_` as it should be stored.
class Decider {
 public:
  Decider(const Observed& seen, Time now)
      : seen_(seen), job_(seen.job), now_(std::chrono::floor<seconds>(now)), status_(seen.job.status) {}

  Decision run();

 private:
  Decision finalize();
  bool begin();
  void begin_attempt();
  void suspend();
  void end_with(bool success, std::string reason, std::string message);
  void clean_up();
  void check_deadline();
  void note_completed();
  bool has_succeeded() const;
  void handle_failures();
  void restart(const Verdict& verdict, const std::vector<const PodView*>& failed);
  void delete_pods();
  void make_parts();
  void make_pods();
  void describe();
  void describe_waiting();
  void check_replicas();
  Decision finish();

  int wanted(Role role) const;
  bool is_current(const PodView& pod) const;
  bool is_ahead(const PodView& pod) const;
  bool is_completed(Role role, int index) const;
  void again_in(milliseconds time) { result_.again = std::min(result_.again.value_or(time), time); }
  void say(bool warning, std::string reason, std::string message) {
    result_.events.push_back({warning, std::move(reason), std::move(message)});
  }
  void remove(const Resource& resource, const std::string& name, const std::string& uid) {
    result_.actions.push_back(DeleteObject{&resource, name, uid});
  }

  const Observed& seen_;
  const Job& job_;
  const Seconds now_;
  Status status_;
  Decision result_;
};

/// The number of workers is that with which the attempt was started; for an elastic job, that of the current spec.
int Decider::wanted(Role role) const {
  if (role == Role::worker && !job_.spec.elastic) return status_.workers;
  return job_.spec.wanted(role);
}

bool Decider::is_current(const PodView& pod) const {
  return pod.attempt == status_.attempt && pod.replacement == status_.replacement(pod.role, pod.index) &&
         pod.index < wanted(pod.role);
}

/// An operator with a newer status made the Pod.
bool Decider::is_ahead(const PodView& pod) const {
  return std::tuple(pod.attempt, pod.replacement) >
         std::tuple(status_.attempt, status_.replacement(pod.role, pod.index));
}

bool Decider::is_completed(Role role, int index) const {
  const auto found = status_.completed.find(role);
  return found != status_.completed.end() && found->second.contains(index);
}

void Decider::begin_attempt() {
  status_.attempt += 1;
  status_.workers = job_.spec.wanted(Role::worker);
  status_.replacements.clear();
  status_.completed.clear();
}

/// False: the decision is complete.
bool Decider::begin() {
  const Condition* failed = status_.find(kFailed);
  if (failed != nullptr && failed->holds && failed->reason == "InvalidSpec" &&
      status_.observed_generation != job_.generation) {
    status_ = Status();  // no part of it has started, and the spec has changed
  }
  if (status_.final()) {
    clean_up();
    return false;
  }
  const bool spec_is_new = status_.observed_generation != job_.generation;
  status_.observed_generation = job_.generation;
  status_.selector = worker_selector(job_);
  if (!status_.holds(kCreated)) {
    status_.set(kCreated, true, "JobCreated", fmt::format("LockstepJob {} is accepted", job_.name), now_);
  }
  if (!job_.problems.empty()) {
    const auto text = fmt::format("{}", fmt::join(job_.problems, "; "));
    if (status_.attempt == 0) {
      end_with(false, "InvalidSpec", text);
    } else if (spec_is_new) {  // running Pods continue
      status_.last_error = text;
      say(true, "InvalidSpec", text + "; the job goes on as it was until this is corrected");
    }
    return false;
  }
  if (spec_is_new) check_replicas();
  if (seen_.obstacle) {
    end_with(false, seen_.obstacle->reason, seen_.obstacle->message);
    return false;
  }
  return true;
}

void Decider::suspend() {
  if (!status_.holds(kSuspended)) {
    const std::string text = "its Pods are deleted, and it waits for runPolicy.suspend: false";
    status_.set(kSuspended, true, "JobSuspended", text, now_);
    status_.set(kRunning, false, "JobSuspended", "it is suspended", now_);
    status_.set(kRestarting, false, "JobSuspended", "it is suspended", now_);
    status_.start_time.reset();
    say(false, "Suspended", text);
  }
  for (const PodView& pod : seen_.pods) {
    if (!pod.deleting) remove(pods(), pod.name, pod.uid);
  }
  if (seen_.pod_group) remove(*pod_groups_of(seen_.gang), pod_group_name(job_), seen_.pod_group->uid);
}

void Decider::end_with(bool success, std::string reason, std::string message) {
  status_.set(kRunning, false, reason, message, now_);
  status_.set(kRestarting, false, reason, message, now_);
  status_.set(kSuspended, false, reason, message, now_);
  status_.set(success ? kSucceeded : kFailed, true, reason, message, now_);
  status_.completion_time = now_;
  if (!success) status_.last_error = message;
  // The reason names the failure; failures of a wrong spec have separate names in the list of events.
  const bool own =
      reason == "InvalidSpec" || reason == "NameConflict" || reason == "PodRefused" || reason == "DeadlineExceeded";
  say(!success, success ? "Succeeded" : own ? reason : "Failed", success ? message : reason + ": " + message);
  clean_up();
}

void Decider::clean_up() {
  for (const PodView& pod : seen_.pods) {
    const bool unwanted = job_.spec.clean == CleanPods::all || (job_.spec.clean == CleanPods::running && !pod.done()) ||
                          pod.attempt != status_.attempt;
    if (unwanted && !pod.deleting) remove(pods(), pod.name, pod.uid);
  }
  if (seen_.pod_group) remove(*pod_groups_of(seen_.gang), pod_group_name(job_), seen_.pod_group->uid);
  if (!job_.spec.ttl_s || !status_.completion_time) return;
  const auto left = *status_.completion_time + seconds(*job_.spec.ttl_s) - now_;
  if (left <= seconds(0)) {
    remove(lockstep_jobs(), job_.name, job_.uid);
  } else {
    again_in(left);
  }
}

void Decider::check_deadline() {
  if (!job_.spec.active_deadline_s || !status_.start_time) return;
  const auto left = *status_.start_time + seconds(*job_.spec.active_deadline_s) - now_;
  if (left > seconds(0)) {
    again_in(left);
    return;
  }
  end_with(
      false, "DeadlineExceeded",
      fmt::format("it ran for {} s, as long as runPolicy.activeDeadlineSeconds allows", *job_.spec.active_deadline_s));
}

/// Ranks that are done stay so when their Pods are deleted.
void Decider::note_completed() {
  for (const PodView& pod : seen_.pods) {
    if (is_current(pod) && pod.phase == PodPhase::succeeded) status_.completed[pod.role].insert(pod.index);
  }
}

bool Decider::has_succeeded() const {
  if (!job_.spec.all_workers) {
    return is_completed(job_.spec.mode == Mode::scheduler ? Role::scheduler : Role::worker, 0);
  }
  for (int index = 0; index < wanted(Role::worker); ++index) {
    if (!is_completed(Role::worker, index)) return false;
  }
  return wanted(Role::worker) > 0;
}

void Decider::handle_failures() {
  std::vector<const PodView*> failed;
  bool others_run = false;
  int restarts = status_.restarts;
  for (const PodView& pod : seen_.pods) {
    if (!is_current(pod)) continue;
    restarts += pod.kubelet_restarts;
    // A Pod that a user deletes is created again after its end; its exit is not a failure.
    if (pod.phase == PodPhase::failed && !pod.deleting) failed.push_back(&pod);
    others_run |= !pod.done();
  }
  if (failed.empty()) return;
  const Verdict verdict = judge_failures(job_.spec, failed, others_run, restarts, now_);
  if (verdict.kind == Verdict::Kind::wait) {
    again_in(verdict.wait);
    return;
  }
  for (const PodView* pod : failed) say(true, "PodFailed", describe_failure(*pod));
  const PodView& first = *verdict.first;
  status_.first_failure = Failure{first.name,
                                  first.uid,
                                  first.role,
                                  first.index,
                                  first.node,
                                  first.exit_code,
                                  first.kind.empty() ? first.reason : first.kind,
                                  first.message,
                                  status_.attempt};
  status_.last_error = verdict.message;
  if (verdict.kind == Verdict::Kind::fail) {
    end_with(false, verdict.reason, verdict.message);
  } else {
    restart(verdict, failed);
  }
}

void Decider::restart(const Verdict& verdict, const std::vector<const PodView*>& failed) {
  const bool in_place = verdict.kind == Verdict::Kind::in_place;
  std::string text;
  if (in_place) {
    for (const PodView* pod : failed) status_.replacements[pod->role][pod->index] += 1;
    status_.restarts += static_cast<int>(failed.size());
    text = fmt::format("replaced in place, the others go on (restart {} of {}): {}", status_.restarts,
                       job_.spec.backoff_limit, verdict.message);
  } else {
    begin_attempt();
    status_.restarts += 1;
    text = fmt::format("all ranks start again (restart {} of {}): {}", status_.restarts, job_.spec.backoff_limit,
                       verdict.message);
  }
  status_.set(kRestarting, true, in_place ? "ReplacingInPlace" : "RestartingAll", text, now_);
  status_.set(kRunning, false, "JobRestarting", "it restarts", now_);
  say(true, "Restarting", text);
}

void Decider::delete_pods() {
  for (const PodView& pod : seen_.pods) {
    if (!is_current(pod) && !is_ahead(pod) && !pod.deleting) remove(pods(), pod.name, pod.uid);
  }
}

/// The garbage collector removes all objects of a deleted job, but not its state outside the cluster.
Decision Decider::finalize() {
  const auto& finalizers = job_.finalizers;
  if (std::find(finalizers.begin(), finalizers.end(), kStateFinalizer) == finalizers.end()) return {};
  for (const PodView& pod : seen_.pods) {
    if (!pod.deleting) remove(pods(), pod.name, pod.uid);
  }
  if (!seen_.pods.empty()) return std::move(result_);  // the scheduler would write its state again
  std::vector<std::string> left;
  for (const auto& each : finalizers) {
    if (each != kStateFinalizer) left.push_back(each);
  }
  if (job_.spec.recovery_clear && job_.problems.empty()) {
    for (int attempt = 1; attempt <= status_.attempt; ++attempt) {
      result_.actions.push_back(ClearState{state_place(job_, attempt)});
    }
  }
  result_.actions.push_back(SetFinalizers{std::move(left)});
  return std::move(result_);
}

void Decider::make_parts() {
  if (job_.spec.recovery_clear &&
      std::find(job_.finalizers.begin(), job_.finalizers.end(), kStateFinalizer) == job_.finalizers.end()) {
    auto finalizers = job_.finalizers;
    finalizers.emplace_back(kStateFinalizer);
    result_.actions.push_back(SetFinalizers{std::move(finalizers)});
  }
  if (job_.spec.tls == TlsSource::automatic && !seen_.secret) {
    result_.actions.push_back(CreateCertificates{secret_name(job_), certificate_hosts(job_)});
  }
  if (!seen_.service) result_.actions.push_back(CreateObject{&services(), make_service(job_)});
  const auto map = make_config_map(job_, status_);
  if (!seen_.config_map) {
    result_.actions.push_back(CreateObject{&config_maps(), map});
  } else if (seen_.config_map->data != map["data"]) {
    result_.actions.push_back(ReplaceObject{&config_maps(), map});
  }
  if (job_.spec.gang && seen_.gang != GangScheduler::none && !seen_.pod_group) {
    result_.actions.push_back(CreateObject{pod_groups_of(seen_.gang), make_pod_group(job_, status_, seen_.gang)});
  }
}

void Decider::make_pods() {
  for (const PodView& pod : seen_.pods) {
    // All ranks of one attempt end before the next begins.
    if (pod.attempt != status_.attempt) return;
  }
  if (job_.spec.gang && seen_.gang == GangScheduler::volcano) {
    const auto phase = seen_.pod_group ? seen_.pod_group->data.value("phase", "") : "";
    if (phase.empty() || phase == "Pending") return;  // the PodGroup would count Pods for which no node has room
  }
  std::vector<std::string> made;
  for (const Role role : kRoles) {
    for (int index = 0; index < wanted(role); ++index) {
      const bool is_there = std::any_of(seen_.pods.begin(), seen_.pods.end(), [&](const PodView& pod) {
        return pod.role == role && pod.index == index;  // also a Pod that is terminating
      });
      if (is_there || is_completed(role, index)) continue;
      result_.actions.push_back(CreateObject{&pods(), make_pod(job_, status_, seen_.gang, role, index)});
      made.push_back(pod_name(job_.name, role, index));
    }
  }
  if (made.empty()) return;
  const auto count = made.size();
  if (count > kMostNames) made.resize(kMostNames);
  say(false, "PodCreated",
      fmt::format("attempt {}: {} Pod{}: {}{}", status_.attempt, count, count == 1 ? "" : "s", fmt::join(made, ", "),
                  count > kMostNames ? ", ..." : ""));
}

/// Counts, the conditions that follow from them, and the phase.
void Decider::describe() {
  status_.replicas.clear();
  bool all_run = true;
  int wanted_sum = 0;
  for (const Role role : kRoles) {
    const int count = wanted(role);
    wanted_sum += count;
    if (count == 0) continue;
    ReplicaCounts counts;
    int running = 0;
    for (const PodView& pod : seen_.pods) {
      if (pod.role != role || !is_current(pod)) continue;
      const bool active = !pod.done() && !pod.deleting;
      counts.active += active && !status_.final() ? 1 : 0;
      counts.ready += active && pod.ready && !status_.final() ? 1 : 0;
      counts.failed += pod.phase == PodPhase::failed ? 1 : 0;
      running += active && pod.phase == PodPhase::running ? 1 : 0;
    }
    const auto completed = status_.completed.find(role);
    counts.succeeded = completed == status_.completed.end() ? 0 : static_cast<int>(completed->second.size());
    status_.replicas[role] = counts;
    const int enough = role == Role::worker && job_.spec.elastic ? std::min(job_.spec.elastic->min, count) : count;
    all_run = all_run && running + counts.succeeded >= enough;
  }
  const bool active = !status_.final() && !status_.holds(kSuspended);
  if (active && wanted_sum > 0 && all_run) {
    if (!status_.holds(kRunning)) status_.set(kRunning, true, "AllRanksRun", "all ranks run", now_);
    if (status_.holds(kRestarting)) status_.set(kRestarting, false, "AllRanksRun", "all ranks run", now_);
  } else if (active) {
    if (status_.holds(kRunning)) status_.set(kRunning, false, "RanksMissing", "not all ranks run", now_);
    describe_waiting();
  }
  status_.phase = "Pending";
  for (const char* type : {kRunning, kRestarting, kSuspended, kSucceeded, kFailed}) {
    if (status_.holds(type)) status_.phase = type;
  }
}

/// For example, an image that cannot be pulled would leave the job in the phase Pending without a reason.
void Decider::describe_waiting() {
  constexpr std::string_view kCannotStart = "PodCannotStart";
  const Condition* before = status_.find(kRunning);
  const bool said = before != nullptr && before->reason == kCannotStart;
  const auto waits = std::ranges::find_if(
      seen_.pods, [&](const PodView& pod) { return is_current(pod) && !pod.deleting && !pod.waits_for.empty(); });
  if (waits == seen_.pods.end()) {
    if (said) status_.set(kRunning, false, "RanksMissing", "not all ranks run", now_);
    return;
  }
  // Kubernetes alternates between ErrImagePull and ImagePullBackOff: this is reported once.
  const auto who = fmt::format("{} cannot start: ", waits->name);
  if (said && before->message.starts_with(who)) return;
  const auto text =
      fmt::format("{}{}{}{}", who, waits->waits_for, waits->waits_message.empty() ? "" : ": ", waits->waits_message);
  if (before == nullptr)
    status_.conditions.push_back({kRunning, false, "", "", now_});  // set() does not create a false condition
  status_.set(kRunning, false, std::string(kCannotStart), text, now_);
  say(true, std::string(kCannotStart), text);
}

/// Checks the change of one number of the spec by `kubectl scale` and similar commands.
void Decider::check_replicas() {
  const auto worker = job_.spec.roles.find(Role::worker);
  if (worker == job_.spec.roles.end()) return;
  const int asked = worker->second.replicas;
  const int given = job_.spec.wanted(Role::worker);
  if (job_.spec.elastic && asked != given) {
    say(true, "ReplicasOutOfLimits",
        fmt::format("replicas is {}, and elastic.{} is {}: the job has {} worker{}", asked,
                    asked > given ? "maxReplicas" : "minReplicas", given, given, given == 1 ? "" : "s"));
  } else if (!job_.spec.elastic && status_.attempt > 0 && given != status_.workers) {
    say(true, "ReplicasOfTheNextStart",
        fmt::format(
            "replicas is {}, and this job was started with {}: it has no elastic.minReplicas and maxReplicas, so "
            "the change counts when all ranks start again",
            asked, status_.workers));
  }
}

Decision Decider::finish() {
  if (status_ != job_.status) result_.status = std::move(status_);
  return std::move(result_);
}

Decision Decider::run() {
  if (job_.deleting) return finalize();
  const bool was_final = job_.status.final();
  if (!begin()) {
    if (!was_final || !status_.final()) describe();
    return finish();
  }
  if (job_.spec.suspend) {
    suspend();
    describe();
    return finish();
  }
  if (status_.holds(kSuspended)) {
    status_.set(kSuspended, false, "JobResumed", "runPolicy.suspend is false", now_);
    if (status_.attempt > 0) begin_attempt();
    say(false, "Resumed", "its Pods are created again");
  }
  if (status_.attempt == 0) {
    begin_attempt();
    if (job_.spec.gang && seen_.gang == GangScheduler::none) {
      say(true, "NoGangScheduler",
          "runPolicy.schedulingPolicy is given, and this cluster has no PodGroups (Volcano or the coscheduling "
          "plugin): "
          "Pods are scheduled one by one");
    }
  }
  if (!status_.start_time) status_.start_time = now_;
  if (std::any_of(seen_.pods.begin(), seen_.pods.end(), [&](const PodView& pod) { return is_ahead(pod); })) {
    result_ = {};
    again_in(seconds(1));  // the status of this job is outdated
    return std::move(result_);
  }
  if (seen_.step) status_.step = seen_.step;
  note_completed();
  if (has_succeeded()) {
    end_with(true, "JobSucceeded", job_.spec.all_workers ? "all workers ended with 0" : "its program ended with 0");
  } else {
    handle_failures();
    if (!status_.final()) check_deadline();
  }
  if (!status_.final()) {
    delete_pods();
    make_parts();
    make_pods();
  }
  describe();
  return finish();
}

}  // namespace

Decision decide(const Observed& observed, Time now) { return Decider(observed, now).run(); }

}  // namespace lockstep::kube
