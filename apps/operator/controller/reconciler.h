// A reconciler, which executes a decision: it stores the status, then deletes and creates objects; and it records
// events on the job, for people: `kubectl describe lockstepjob`.
#pragma once

#include <apps/operator/api/client.h>
#include <apps/operator/controller/cache.h>
#include <apps/operator/controller/progress.h>
#include <apps/operator/decide/decide.h>

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::kube {

/// What a worker does with the key afterwards.
struct Reconciled {
  enum class Next { done, at_once, retry };
  Next next = Next::done;
  std::optional<std::chrono::milliseconds> after{};  ///< done: reconcile again after this time; retry: not before it
  std::string trouble{};                             ///< of `retry`
};

/// Not thread-safe. Best effort: a job continues without its events.
class EventRecorder {
 public:
  /// `identity`: of this operator; it makes the names of its events unique.
  explicit EventRecorder(std::string identity) : identity_(std::move(identity)) {}

  /// Creates an event, or increments the count of an equal event that was recorded before.
  void record(ApiClient& client, const Job& job, const EventNote& note, Time now);

 private:
  std::string identity_;
  std::map<std::string, int> counts_;  ///< by the event's name
};

/// Shared by workers: the objects that can never be created. Thread-safe.
class Obstacles {
 public:
  void set(const std::string& job_uid, Obstacle obstacle);
  std::optional<Obstacle> find(const std::string& job_uid) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Obstacle> by_uid_;
};

/// One for each worker. Not thread-safe.
class Reconciler {
 public:
  Reconciler(ApiClient& client, Cache& cache, Obstacles& obstacles, const JobProgress& progress, GangScheduler gang,
             std::string identity)
      : client_(client),
        cache_(cache),
        obstacles_(obstacles),
        progress_(progress),
        gang_(gang),
        recorder_(std::move(identity)) {}

  Reconciled reconcile(const std::string& key, Time now);

 private:
  Observed observe(const nlohmann::json& job) const;
  std::optional<Reconciled> store_status(const Job& job, const Status& status);
  std::optional<Reconciled> carry_out(const Job& job, const Action& action);
  std::optional<Reconciled> create(const Job& job, const Resource& resource, const nlohmann::json& object);
  std::optional<Reconciled> judge_taken(const Job& job, const Resource& resource, const std::string& name);
  std::optional<Reconciled> remove(const Job& job, const DeleteObject& what);
  std::optional<Reconciled> set_finalizers(const Job& job, const std::vector<std::string>& finalizers);
  std::optional<Reconciled> clear_state(const Job& job, const std::string& url);
  std::optional<Reconciled> refresh(const Job& job);
  static Reconciled retry(const Answer& answer, const std::string& what);

  ApiClient& client_;
  Cache& cache_;
  Obstacles& obstacles_;
  const JobProgress& progress_;
  GangScheduler gang_;
  EventRecorder recorder_;
};

}  // namespace lockstep::kube
