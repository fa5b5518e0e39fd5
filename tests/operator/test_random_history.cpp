// Random histories of one job against a model of an API server: Pods start, end and vanish, operators see old copies,
// die after any write, and run two at a time. Whatever happens, a rank has but one Pod, each failure counts once, final
// states stay final, and in the end the job ends.
#include <apps/operator/decide/decide.h>
#include <apps/operator/job/json.h>
#include <apps/operator/job/names.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "operator/job_text.h"

namespace lockstep::kube {
namespace {

/// What an API server would do with the writes of an operator.
class Server {
 public:
  explicit Server(Job job) : job_(std::move(job)) {}

  bool store_status(const Job& seen, const Status& status) {
    if (seen.version != job_.version) return false;
    if (job_.status.final()) {
      EXPECT_TRUE(job_.status.conditions == status.conditions) << "a final state changed";
    }
    EXPECT_GE(status.attempt, job_.status.attempt);
    EXPECT_GE(status.restarts, job_.status.restarts);
    EXPECT_LE(status.restarts - job_.status.restarts, 3);
    if (status == job_.status) return true;
    job_.status = status;
    bump();
    return true;
  }

  void create_pod(const nlohmann::json& object) {
    const auto name = name_of(object);
    if (pods_.contains(name)) return;  // 409
    auto made = object;
    made["metadata"]["uid"] = fmt::format("uid-{}", ++uids_);
    PodView view = *view_pod(made, job_.uid);
    const auto rank = std::tuple(view.role, view.index, view.attempt, view.replacement);
    // One rank of one attempt runs twice only where its Pod was deleted by somebody else.
    if (!vanished_.contains(view.name)) {
      EXPECT_TRUE(started_.insert(rank).second) << "a second Pod for " << name;
    }
    vanished_.erase(view.name);
    EXPECT_FALSE(job_.status.final()) << "a Pod for a job that has ended";
    pods_[name] = view;
  }

  void delete_pod(const std::string& name, const std::string& uid) {
    const auto found = pods_.find(name);
    if (found == pods_.end() || found->second.uid != uid) return;
    if (found->second.phase == PodPhase::running) {
      found->second.deleting = true;
    } else {
      pods_.erase(found);
    }
  }

  /// Something happens that no operator does.
  void happen(std::mt19937& random) {
    if (pods_.empty()) return;
    auto at = pods_.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(random() % pods_.size()));
    PodView& pod = at->second;
    if (pod.deleting) {
      if (random() % 2 == 0) pods_.erase(at);
      return;
    }
    switch (random() % 8) {
      case 0:
        if (pod.phase == PodPhase::running) end(pod, 137);
        break;
      case 1:
        if (pod.phase == PodPhase::running) end(pod, 1);
        break;
      case 2:
        vanished_.insert(at->first);
        pods_.erase(at);
        break;
      default:
        if (pod.phase == PodPhase::pending) pod.phase = PodPhase::running;
    }
  }

  /// From here on nothing goes wrong.
  void settle() {
    for (auto at = pods_.begin(); at != pods_.end();) {
      if (at->second.deleting) {
        at = pods_.erase(at);
        continue;
      }
      PodView& pod = at->second;
      if (pod.phase == PodPhase::running) end(pod, 0);
      if (pod.phase == PodPhase::pending) pod.phase = PodPhase::running;
      ++at;
    }
  }

  void suspend(bool yes) {
    job_.spec.suspend = yes;
    job_.generation += 1;
    bump();
  }

  Observed picture() const {
    Observed seen;
    seen.job = job_;
    for (const auto& [name, pod] : pods_) seen.pods.push_back(pod);
    seen.service = Part{"s", {}};
    seen.config_map = Part{"c", {{"hosts", hosts_}}};
    seen.secret = Part{"t", {}};
    return seen;
  }
  const Job& job() const { return job_; }
  void set_hosts(const nlohmann::json& object) { hosts_ = object["data"]["hosts"]; }

 private:
  void bump() { job_.version = std::to_string(++version_); }
  static void end(PodView& pod, int code) {
    pod.phase = code == 0 ? PodPhase::succeeded : PodPhase::failed;
    pod.exit_code = code;
  }

  Job job_;
  std::map<std::string, PodView> pods_;
  std::set<std::tuple<Role, int, int, int>> started_;
  std::set<std::string> vanished_;
  std::string hosts_;
  int version_ = 1;
  int uids_ = 0;
};

/// One operator, which sees pictures that may be old, as the reconciler does: the job must be fresh before it acts.
void act(Server& server, const Observed& seen, Time now, std::mt19937& random, bool may_die) {
  const Decision decision = decide(seen, now);
  const auto dies = [&] { return may_die && random() % 4 == 0; };
  if (decision.status) {
    if (!server.store_status(seen.job, *decision.status)) return;
  } else if (seen.job.version != server.job().version) {
    return;
  }
  for (const Action& action : decision.actions) {
    if (dies()) return;
    if (const auto* made = std::get_if<CreateObject>(&action)) {
      if (*made->resource == pods()) server.create_pod(made->object);
    } else if (const auto* gone = std::get_if<DeleteObject>(&action)) {
      if (*gone->resource == pods()) server.delete_pod(gone->name, gone->uid);
    } else if (const auto* changed = std::get_if<ReplaceObject>(&action)) {
      server.set_hosts(changed->object);
    }
  }
}

void run_history(const std::string& spec, unsigned seed) {
  std::mt19937 random(seed);
  Server server(test::job_of(spec));
  Time now = *parse_time("2026-03-01T12:00:00Z");
  std::vector<Observed> pictures = {server.picture()};
  for (int step = 0; step < 200; ++step) {
    if (random() % 3 == 0) server.happen(random);
    if (random() % 40 == 0) server.suspend(!server.job().spec.suspend);
    pictures.push_back(server.picture());
    // Old by up to four steps; Pods and job from different times, as watches come one by one.
    const auto old = [&]() -> const Observed& {
      return pictures[pictures.size() - 1 - std::min<std::size_t>(random() % 5, pictures.size() - 1)];
    };
    Observed seen = old();
    if (random() % 2 == 0) seen.job = server.job();
    act(server, seen, now, random, true);
    now += std::chrono::seconds(random() % 3);
  }
  server.suspend(false);
  for (int step = 0; step < 100 && !server.job().status.final(); ++step) {
    server.settle();
    act(server, server.picture(), now, random, false);
    now += std::chrono::seconds(5);
  }
  EXPECT_TRUE(server.job().status.final())
      << spec << " with seed " << seed << ": " << to_json(server.job().status).dump(1);
  for (int step = 0; step < 3; ++step) {
    server.settle();
    act(server, server.picture(), now, random, false);
  }
}

TEST(RandomHistory, JobsEndAndNoRankIsThereTwice) {
  for (const char* spec : {
           "{runPolicy: {backoffLimit: 50}, replicaSpecs: {Worker: {replicas: 3, template: WORKER}}}",
           "{runPolicy: {backoffLimit: 3, cleanPodPolicy: All}, replicaSpecs: {Worker: {replicas: 2, template: "
           "WORKER}}}",
           "{mode: Scheduler, recovery: {path: /state}, runPolicy: {backoffLimit: 50}, replicaSpecs: {Worker: "
           "{replicas: 3, template: "
           "WORKER}}}",
           "{successPolicy: AllWorkers, runPolicy: {backoffLimit: 50}, replicaSpecs: {Worker: {replicas: 3, template: "
           "WORKER}}}",
       }) {
    for (unsigned seed = 1; seed <= 50; ++seed) {
      run_history(spec, seed);
      if (testing::Test::HasFailure()) {
        ADD_FAILURE() << "with seed " << seed << " and " << spec;
        return;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::kube
