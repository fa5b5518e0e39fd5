// The rules for failed Pods: which Pod is the cause, and whether to replace in place, restart all, wait or fail.
#include <apps/operator/decide/failures.h>

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace lockstep::kube {
namespace {

using std::chrono::seconds;

constexpr int kUsersMistake = 2;  // cluster/failure.h
constexpr int kEndedEarly = 75;   // the same
constexpr int kFirstOfSignals = 128;
constexpr seconds kCauseMustShow(10);  // Pods end in one order, and their statuses arrive in another

const PodView* first_of(const std::vector<const PodView*>& failed) {
  const auto order = [](const PodView* pod) {
    return std::make_tuple(pod->is_consequence(), pod->ended.value_or(Seconds::max()), pod->role != Role::worker,
                           pod->index);
  };
  return *std::min_element(failed.begin(), failed.end(),
                           [&](const PodView* a, const PodView* b) { return order(a) < order(b); });
}

/// Whether the rest of the job can stay while this Pod is replaced.
bool can_replace(const JobSpec& spec, const PodView& pod) {
  switch (spec.mode) {
    case Mode::scheduler:
      if (!spec.recovery) return false;
      // The next scheduler continues from the saved state. The exit code 1 of a scheduler means that the job failed.
      return pod.role != Role::scheduler || pod.is_disruption() || pod.exit_code == kEndedEarly;
    case Mode::run:
      // Worker 0 runs the launchers' service. An exit code is the result that all launchers agreed on.
      return (spec.recovery || spec.elastic) && pod.index != 0 && pod.is_disruption();
    case Mode::none: break;
  }
  return false;
}

/// Why a restart cannot help; empty: it may help.
std::string obstacle(const JobSpec& spec, const PodView& pod) {
  const auto role = spec.roles.find(pod.role);
  const auto policy = role == spec.roles.end() ? RestartPolicy::on_failure : role->second.restart;
  if (pod.exit_code == kUsersMistake) return "ConfigurationError";
  if (policy == RestartPolicy::never) return "RestartPolicyNever";
  const bool worth_it = !pod.exit_code || *pod.exit_code == kEndedEarly || *pod.exit_code >= kFirstOfSignals;
  if (policy == RestartPolicy::exit_code && !worth_it) return "PermanentExitCode";
  return "";
}

}  // namespace

std::string describe_failure(const PodView& pod) {
  std::string text = fmt::format("{} {} (Pod {}", name(pod.role), pod.index, pod.name);
  if (!pod.node.empty()) text += " on node " + pod.node;
  text += "): " + describe_end(pod.exit_code, pod.reason);
  if (!pod.message.empty()) text += ": " + pod.message;
  return text;
}

Verdict judge_failures(const JobSpec& spec, const std::vector<const PodView*>& failed, bool others_run, int restarts,
                       Seconds now) {
  Verdict verdict;
  const bool in_place =
      std::all_of(failed.begin(), failed.end(), [&](const PodView* pod) { return can_replace(spec, *pod); });
  const auto users_mistake = std::find_if(failed.begin(), failed.end(), [](const PodView* pod) {
    return pod->exit_code == kUsersMistake && !pod->is_consequence();
  });
  verdict.first = users_mistake != failed.end() ? *users_mistake : first_of(failed);
  if (verdict.first->is_consequence() && !in_place && others_run) {
    const auto waited = now - verdict.first->ended.value_or(now);
    if (waited < kCauseMustShow) {
      verdict.kind = Verdict::Kind::wait;
      verdict.wait = std::clamp(kCauseMustShow - waited, seconds(1), kCauseMustShow);
      return verdict;
    }
  }
  verdict.message = describe_failure(*verdict.first);
  verdict.reason = obstacle(spec, *verdict.first);
  if (!verdict.reason.empty()) return verdict;
  const int wanted = in_place ? static_cast<int>(failed.size()) : 1;
  if (restarts + wanted > spec.backoff_limit) {
    verdict.reason = "BackoffLimitExceeded";
    verdict.message = fmt::format("after {} of {} restarts: {}", restarts, spec.backoff_limit, verdict.message);
    return verdict;
  }
  verdict.kind = in_place ? Verdict::Kind::in_place : Verdict::Kind::all;
  return verdict;
}

}  // namespace lockstep::kube
