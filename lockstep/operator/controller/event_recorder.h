// Events on a job, for people: `kubectl describe lockstepjob`.
#pragma once

#include <lockstep/operator/api/client.h>
#include <lockstep/operator/decide/decide.h>

#include <map>
#include <string>

namespace lockstep::kube {

/// Not thread-safe. Best effort: a job goes on without its events.
class EventRecorder {
 public:
  /// `identity`: this operator's, so that the names of its events are its own.
  explicit EventRecorder(std::string identity) : identity_(std::move(identity)) {}

  /// Makes an event, or counts one up that was said before.
  void record(ApiClient& client, const Job& job, const EventNote& note, Time now);

 private:
  std::string identity_;
  std::map<std::string, int> counts_;  ///< by the event's name
};

}  // namespace lockstep::kube
