// The first failed rank, and whether a restart can help.
#pragma once

#include <apps/operator/decide/pod_view.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::kube {

/// The reaction to failed Pods of the current attempt.
struct Verdict {
  enum class Kind {
    wait,      ///< they failed because of another Pod, whose exit status is not known yet
    in_place,  ///< replace these alone
    all,       ///< start all ranks again
    fail,      ///< the job has failed
  };
  Kind kind = Kind::fail;
  const PodView* first = nullptr;  ///< the Pod that failed first
  std::string reason;              ///< of `fail`, e.g. "BackoffLimitExceeded"
  std::string message;
  std::chrono::seconds wait{};
};

/// `failed`: not empty. `others_run`: Pods of the attempt have not ended yet. `restarts`: those so far.
Verdict judge_failures(const JobSpec& spec, const std::vector<const PodView*>& failed, bool others_run, int restarts,
                       Seconds now);

/// "Worker 1 (Pod a-worker-1 on node n1): exit code 137 (SIGKILL), OOMKilled".
std::string describe_failure(const PodView& pod);

}  // namespace lockstep::kube
