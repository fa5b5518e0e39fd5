// A Pod's JSON reduced to rank, phase, exit code, node and the reason from its termination message; and the rules for
// failed Pods: which Pod is the cause, and whether to replace in place, restart all, wait or fail.
#include <apps/operator/decide/pod_failures.h>
#include <apps/operator/job/json.h>
#include <apps/operator/job/names.h>
#include <lockstep/base/process.h>
#include <lockstep/base/text.h>
#include <lockstep/cluster/failure.h>

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace lockstep::kube {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestMessage = 1024;

std::optional<int> number_label(const json& pod, const char* label) {
  const auto number = parse_integer(label_of(pod, label));
  if (!number || *number < 0 || *number > 1'000'000'000) return std::nullopt;
  return static_cast<int>(*number);
}

/// The status of the container that trains: that with the name "lockstep", or the only one.
const json* main_container(const json& status) {
  const json& containers = list_at(status, "containerStatuses");
  for (const json& container : containers) {
    if (text_at(container, "name") == "lockstep") return &container;
  }
  return containers.size() == 1 ? &containers[0] : nullptr;
}

void read_end(const json& terminated, PodView& view) {
  const int code = static_cast<int>(integer_at(terminated, "exitCode").value_or(1));
  view.exit_code = code;
  view.phase = code == 0 ? PodPhase::succeeded : PodPhase::failed;
  view.reason = text_at(terminated, "reason");
  view.ended = parse_time(text_at(terminated, "finishedAt"));
  auto words = read_last_words(text_at(terminated, "message"));
  view.message = std::move(words.message);
  view.kind = std::move(words.kind);
  // This launcher left a job that continues without it, or that succeeded.
  if (view.kind == cluster::kUnneededKind) view.phase = PodPhase::succeeded;
}

/// The first container that cannot start because of an error in its image or its settings.
void read_obstacle(const json& status, PodView& view) {
  for (const char* list : {"initContainerStatuses", "containerStatuses"}) {
    for (const json& container : list_at(status, list)) {
      const json& waiting = object_at(object_at(container, "state"), "waiting");
      const auto reason = text_at(waiting, "reason");
      if (reason.empty() || reason == "ContainerCreating" || reason == "PodInitializing") continue;
      view.waits_for = reason;
      view.waits_message = text_at(waiting, "message");
      return;
    }
  }
}

PodPhase phase_of(const std::string& text) {
  if (text == "Running") return PodPhase::running;
  if (text == "Succeeded") return PodPhase::succeeded;
  if (text == "Failed") return PodPhase::failed;
  return PodPhase::pending;
}

bool is_ready(const json& status) {
  for (const json& condition : list_at(status, "conditions")) {
    if (text_at(condition, "type") == "Ready") return text_at(condition, "status") == "True";
  }
  return false;
}

using std::chrono::seconds;

using cluster::kEndedEarly;
using cluster::kUsage;
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
  if (pod.exit_code == kUsage) return "ConfigurationError";
  if (policy == RestartPolicy::never) return "RestartPolicyNever";
  const bool worth_it = !pod.exit_code || *pod.exit_code == kEndedEarly || *pod.exit_code >= kFirstOfSignals;
  if (policy == RestartPolicy::exit_code && !worth_it) return "PermanentExitCode";
  return "";
}

}  // namespace

bool PodView::is_consequence() const {
  // The scheduler ends with 1 when a worker failed.
  return kind == "peer_lost" || (role == Role::scheduler && exit_code == 1);
}

std::optional<PodView> view_pod(const json& pod, const std::string& job_uid) {
  const auto role = parse_role(label_of(pod, kRoleLabel));
  const auto index = number_label(pod, kIndexLabel);
  if (label_of(pod, kJobUidLabel) != job_uid || controller_uid(pod) != job_uid || !role || !index) return std::nullopt;
  PodView view;
  view.name = name_of(pod);
  view.uid = uid_of(pod);
  view.role = *role;
  view.index = *index;
  view.attempt = number_label(pod, kAttemptLabel).value_or(0);
  view.replacement = number_label(pod, kReplacementLabel).value_or(0);
  view.deleting = !text_at(object_at(pod, "metadata"), "deletionTimestamp").empty();
  view.node = text_at(object_at(pod, "spec"), "nodeName");
  const json& status = object_at(pod, "status");
  view.phase = phase_of(text_at(status, "phase"));
  view.ready = is_ready(status);
  view.reason = text_at(status, "reason");
  view.message = text_at(status, "message");
  read_obstacle(status, view);
  if (const json* container = main_container(status)) {
    view.kubelet_restarts = static_cast<int>(integer_at(*container, "restartCount").value_or(0));
    const json& terminated = object_at(object_at(*container, "state"), "terminated");
    if (!terminated.empty()) read_end(terminated, view);
  }
  return view;
}

LastWords read_last_words(const std::string& text) {
  const auto cut = [](std::string words) {
    if (words.size() > kLongestMessage) words = words.substr(0, kLongestMessage) + "...";
    return words;
  };
  const json file = json::parse(text, nullptr, false);
  if (!file.is_object()) return {cut(text), ""};
  if (const auto plain = text_at(file, "message"); !plain.empty()) return {cut(plain), ""};
  const json& message = object_at(file, "message");
  return {cut(text_at(message, "message")), text_at(object_at(message, "extraInfo"), "kind")};
}

std::string describe_end(const std::optional<int>& exit_code, const std::string& reason) {
  if (!exit_code) return reason.empty() ? "no exit code" : reason;
  std::string text = fmt::format("exit code {}", *exit_code);
  if (*exit_code > 128 && *exit_code < 128 + 65) text += fmt::format(" ({})", signal_name(*exit_code - 128));
  if (!reason.empty() && reason != "Error") text += ", " + reason;
  return text;
}

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
    return pod->exit_code == kUsage && !pod->is_consequence();
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
