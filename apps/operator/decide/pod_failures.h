// Failures of Pods: the fields of Pods on which decisions depend, the Pod that failed first, and whether a restart can
// help.
#pragma once

#include <apps/operator/job/job.h>

#include <nlohmann/json.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::kube {

/// The phase of a Pod's work. The training container decides, even if other containers still run.
enum class PodPhase { pending, running, succeeded, failed };

struct PodView {
  std::string name;
  std::string uid;
  Role role = Role::worker;
  int index = 0;
  int attempt = 0;
  int replacement = 0;
  PodPhase phase = PodPhase::pending;
  bool deleting = false;
  bool ready = false;
  std::string node;
  std::optional<int> exit_code{};  ///< of the container that trains, once it has ended
  std::string reason;              ///< Kubernetes' reason, e.g. "OOMKilled", "Evicted"
  std::string message;             ///< the rank's message, from its error file, else that of Kubernetes
  std::string waits_for;           ///< why a container cannot start: "ImagePullBackOff"; empty: no reason is known
  std::string waits_message;       ///< Kubernetes' message about it
  std::string kind;                ///< of the rank's error, e.g. "peer_lost"; empty: not reported
  std::optional<Seconds> ended{};
  int kubelet_restarts = 0;

  bool done() const { return phase == PodPhase::succeeded || phase == PodPhase::failed; }
  /// A Lockstep process ended because another process was lost.
  bool is_consequence() const;
  /// The program did not exit by itself: a signal, an eviction, or a lost node.
  bool is_disruption() const { return phase == PodPhase::failed && (!exit_code || *exit_code >= 128); }
};

/// Reads a Pod; nullopt when its labels are not those of a Pod of `job_uid`.
std::optional<PodView> view_pod(const nlohmann::json& pod, const std::string& job_uid);

/// The content of an error file (docs/errors.md): the rank's message and the kind of its error. Any other text is taken
/// as the message.
struct LastWords {
  std::string message;
  std::string kind;
};
LastWords read_last_words(const std::string& termination_message);

/// "exit code 3", "signal 9 (SIGKILL)", "Evicted".
std::string describe_end(const std::optional<int>& exit_code, const std::string& reason);

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
