// Events on a job, for people: `kubectl describe lockstepjob`.
#pragma once

#include <apps/operator/api/client.h>
#include <apps/operator/decide/decide.h>

#include <map>
#include <string>

namespace lockstep::kube {

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

}  // namespace lockstep::kube
