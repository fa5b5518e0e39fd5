// A Pod as the decisions see it.
#pragma once

#include <lockstep/operator/job/job.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace lockstep::kube {

/// How a Pod's work stands. Of several containers the one that trains decides, also where others run on.
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
  std::string reason;              ///< Kubernetes' word, e.g. "OOMKilled", "Evicted"
  std::string message;             ///< the rank's own words, from its error file, else Kubernetes'
  std::string waits_for;      ///< why a container cannot start: "ImagePullBackOff"; empty: it can, as far as is known
  std::string waits_message;  ///< Kubernetes' words on that
  std::string kind;           ///< of the rank's error, e.g. "peer_lost"; empty when it gave none
  std::optional<Seconds> ended{};
  int kubelet_restarts = 0;

  bool done() const { return phase == PodPhase::succeeded || phase == PodPhase::failed; }
  /// A program of Lockstep's ended because another one was lost.
  bool is_consequence() const;
  /// No verdict of the program: a signal, an eviction, a lost node.
  bool is_disruption() const { return phase == PodPhase::failed && (!exit_code || *exit_code >= 128); }
};

/// Reads a Pod; nullopt when its labels are not those of a Pod of `job_uid`.
std::optional<PodView> view_pod(const nlohmann::json& pod, const std::string& job_uid);

/// What an error file says (docs/errors.md): the rank's words and its error's kind. A text that is no such file is
/// the message itself.
struct LastWords {
  std::string message;
  std::string kind;
};
LastWords read_last_words(const std::string& termination_message);

/// "exit code 3", "signal 9 (SIGKILL)", "Evicted".
std::string describe_end(const std::optional<int>& exit_code, const std::string& reason);

}  // namespace lockstep::kube
