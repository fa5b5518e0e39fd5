// A strict reader of a LockstepJob's spec: defaults, ranges and rules across fields, with all problems collected.
#include <apps/operator/job/job.h>
#include <apps/operator/job/json.h>
#include <apps/operator/job/names.h>
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/cluster/etcd/client.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

namespace lockstep::kube {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestLabel = 63;

/// Reads one section of a spec and collects its problems.
class Section {
 public:
  Section(const json& object, std::string path, std::vector<std::string>& problems)
      : object_(object), path_(std::move(path)), problems_(problems) {}

  template <typename... Args>
  void refuse(const std::string& key, fmt::format_string<Args...> format, Args&&... args) {
    problems_.push_back(fmt::format("{}{}{}: {}", path_, key.empty() ? "" : ".", key,
                                    fmt::format(format, std::forward<Args>(args)...)));
  }

  bool has(const std::string& key) const { return object_.contains(key) && !object_[key].is_null(); }

  std::optional<std::int64_t> integer(const std::string& key, std::int64_t low, std::int64_t high) {
    if (!has(key)) return std::nullopt;
    const json& value = object_[key];
    if (value.is_number_integer() && value.get<std::int64_t>() >= low && value.get<std::int64_t>() <= high) {
      return value.get<std::int64_t>();
    }
    refuse(key, "{} is no integer from {} to {}", value.dump(), low, high);
    return std::nullopt;
  }

  bool flag(const std::string& key, bool otherwise) {
    if (!has(key)) return otherwise;
    if (object_[key].is_boolean()) return object_[key].get<bool>();
    refuse(key, "{} is neither true nor false", object_[key].dump());
    return otherwise;
  }

  std::string text(const std::string& key) {
    if (!has(key)) return "";
    if (object_[key].is_string()) return object_[key].get<std::string>();
    refuse(key, "{} is no text", object_[key].dump());
    return "";
  }

  /// One of the names, as an index into them.
  template <typename Value>
  std::optional<Value> choice(const std::string& key, const std::vector<std::pair<std::string, Value>>& choices) {
    if (!has(key)) return std::nullopt;
    const std::string given = text(key);
    std::vector<std::string> names;
    for (const auto& [word, value] : choices) {
      if (word == given) return value;
      names.push_back(word);
    }
    refuse(key, "'{}' is none of {}{}", given, fmt::join(names, ", "), did_you_mean(given, names));
    return std::nullopt;
  }

  Section section(const std::string& key) {
    if (has(key) && !object_[key].is_object()) refuse(key, "it must have fields of its own");
    return {object_at(object_, key), path_ + "." + key, problems_};
  }

  const json& object() const { return object_; }

 private:
  const json& object_;
  std::string path_;
  std::vector<std::string>& problems_;
};

bool is_dns_label(std::string_view text) {
  const auto small = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (text.empty() || !small(text.front()) || text.back() == '-') return false;
  return std::all_of(text.begin(), text.end(), [&](char c) { return small(c) || digit(c) || c == '-'; });
}

void check_template(Section& role) {
  const json& containers = list_at(object_at(object_at(role.object(), "template"), "spec"), "containers");
  if (containers.empty()) {
    role.refuse("template.spec.containers", "there is none; give the container that trains");
    return;
  }
  const bool named =
      std::any_of(containers.begin(), containers.end(), [](const json& c) { return text_at(c, "name") == "lockstep"; });
  if (containers.size() > 1 && !named) {
    role.refuse("template.spec.containers",
                "of several, the one that trains must be named 'lockstep', and none of these {} is", containers.size());
  }
}

RoleSpec read_role(Section role, bool own_template) {
  RoleSpec spec;
  spec.replicas = static_cast<int>(role.integer("replicas", 0, kMostReplicas).value_or(1));
  spec.restart = role.choice<RestartPolicy>("restartPolicy", {{"OnFailure", RestartPolicy::on_failure},
                                                              {"Always", RestartPolicy::always},
                                                              {"Never", RestartPolicy::never},
                                                              {"ExitCode", RestartPolicy::exit_code}})
                     .value_or(RestartPolicy::on_failure);
  if (own_template) check_template(role);
  spec.pod_template = object_at(role.object(), "template");
  return spec;
}

void read_roles(Section roles, JobSpec& spec) {
  for (const auto& [key, value] : roles.object().items()) {
    const auto role = parse_role(key);
    if (!role || !value.is_object()) {
      roles.refuse(key, "the roles are Scheduler, PS and Worker");
      continue;
    }
    // A scheduler without a template uses the worker's.
    spec.roles[*role] = read_role(roles.section(key), *role != Role::scheduler || value.contains("template"));
  }
  if (!spec.roles.contains(Role::worker)) roles.refuse("Worker", "a job needs workers, and there are none");
}

void read_policy(Section policy, JobSpec& spec) {
  spec.suspend = policy.flag("suspend", false);
  spec.clean =
      policy
          .choice<CleanPods>("cleanPodPolicy",
                             {{"Running", CleanPods::running}, {"All", CleanPods::all}, {"None", CleanPods::none}})
          .value_or(CleanPods::running);
  spec.backoff_limit = static_cast<int>(policy.integer("backoffLimit", 0, 1'000'000).value_or(6));
  spec.active_deadline_s = policy.integer("activeDeadlineSeconds", 1, kMostSeconds);
  spec.ttl_s = policy.integer("ttlSecondsAfterFinished", 0, kMostSeconds);
  if (!policy.has("schedulingPolicy")) return;
  Section scheduling = policy.section("schedulingPolicy");
  Gang gang;
  if (const auto least = scheduling.integer("minAvailable", 1, kMostReplicas))
    gang.min_available = static_cast<int>(*least);
  gang.queue = scheduling.text("queue");
  gang.priority_class = scheduling.text("priorityClass");
  gang.min_resources = object_at(scheduling.object(), "minResources");
  if (const auto wait = scheduling.integer("scheduleTimeoutSeconds", 0, kMostSeconds))
    gang.timeout_s = static_cast<int>(*wait);
  spec.gang = gang;
}

void read_security(Section security, JobSpec& spec) {
  const std::string tls = security.text("tls");
  spec.tls = spec.mode == Mode::scheduler ? TlsSource::automatic : TlsSource::insecure;
  if (tls.empty()) return;
  spec.tls = tls == "Auto" ? TlsSource::automatic : tls == "Insecure" ? TlsSource::insecure : TlsSource::named;
  if (spec.tls != TlsSource::named) return;
  spec.secret = tls;
  const bool name_of_object = std::all_of(tls.begin(), tls.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
  if (!name_of_object) security.refuse("tls", "'{}' is none of Auto, Insecure, and names of Secrets", tls);
}

void check_counts(Section& spec_section, const JobSpec& spec) {
  const auto count = [&](Role role) {
    const auto found = spec.roles.find(role);
    return found == spec.roles.end() ? 0 : found->second.replicas;
  };
  if (!spec.roles.contains(Role::worker)) return;
  if (spec.roles.contains(Role::scheduler) && count(Role::scheduler) != 1) {
    spec_section.refuse("replicaSpecs.Scheduler.replicas", "a job has one scheduler, not {}", count(Role::scheduler));
  }
  for (const Role role : {Role::scheduler, Role::ps}) {
    if (spec.roles.contains(role) && spec.mode != Mode::scheduler) {
      spec_section.refuse(fmt::format("replicaSpecs.{}", name(role)), "this role needs mode: Scheduler");
    }
  }
  if (count(Role::worker) < 1) spec_section.refuse("replicaSpecs.Worker.replicas", "a job needs at least one worker");
  if (spec.mode == Mode::none && count(Role::worker) != 1) {
    spec_section.refuse("replicaSpecs.Worker.replicas", "mode None is for one worker, not for {}", count(Role::worker));
  }
}

void check_rules(Section& section, const JobSpec& spec) {
  if (spec.elastic && spec.mode != Mode::run) section.refuse("elastic", "an elastic job needs mode: Run");
  if (spec.elastic && spec.elastic->min > spec.elastic->max) {
    section.refuse("elastic.minReplicas", "{} is more than maxReplicas, {}", spec.elastic->min, spec.elastic->max);
  }
  if (spec.recovery && spec.mode == Mode::scheduler && spec.recovery_path.empty()) {
    section.refuse("recovery.path",
                   "with recovery the scheduler saves its state: name a folder of a volume, or a key of an etcd "
                   "(etcd://HOST:PORT/KEY)");
  }
  if (!spec.recovery_clear) return;
  // The TLS files of etcds:// are in the job's Pods, and not available to the operator.
  if (!spec.recovery_path.starts_with("etcd://")) {
    section.refuse("recovery.clear", "only a key of an etcd (recovery.path: etcd://HOST:PORT/KEY) can be deleted");
    return;
  }
  try {
    cluster::etcd::parse_url(spec.recovery_path, "recovery.path");
  } catch (const Error& error) {
    section.refuse("recovery.path", "{}", error.message());
  }
}

/// The names of Pods are host names, and the name of the Service is a DNS label.
void check_name(const std::string& job_name, const JobSpec& spec, std::vector<std::string>& problems) {
  if (!is_dns_label(job_name)) {
    problems.push_back(fmt::format(
        "metadata.name: '{}' is no DNS label (letters, digits and '-', a letter first), which its Service must be",
        job_name));
  }
  const int most = spec.elastic ? spec.elastic->max : std::max(spec.wanted(Role::worker), spec.wanted(Role::ps));
  const auto longest = std::max(pod_name(job_name, Role::worker, std::max(most - 1, 0)).size(),
                                pod_name(job_name, Role::scheduler, 0).size());
  if (longest > kLongestLabel) {
    problems.push_back(
        fmt::format("metadata.name: the names of its Pods would have {} characters, and host names have at "
                    "most {}; shorten it by {}",
                    longest, kLongestLabel, longest - kLongestLabel));
  }
}

}  // namespace

int JobSpec::wanted(Role role) const {
  if (role == Role::scheduler) return mode == Mode::scheduler ? 1 : 0;
  const auto found = roles.find(role);
  if (found == roles.end()) return 0;
  const int given = found->second.replicas;
  if (role != Role::worker || !elastic) return given;
  return std::clamp(given, std::min(elastic->min, elastic->max), elastic->max);
}

JobSpec parse_spec(const json& object, const std::string& job_name, std::vector<std::string>& problems) {
  JobSpec spec;
  Section section(object, "spec", problems);
  read_roles(section.section("replicaSpecs"), spec);
  spec.mode = section.choice<Mode>("mode", {{"Scheduler", Mode::scheduler}, {"Run", Mode::run}, {"None", Mode::none}})
                  .value_or(spec.roles.contains(Role::scheduler) ? Mode::scheduler : Mode::run);
  spec.all_workers = section.choice<bool>("successPolicy", {{"", false}, {"AllWorkers", true}}).value_or(false);
  if (section.has("elastic")) {
    Section elastic = section.section("elastic");
    spec.elastic = Elastic{static_cast<int>(elastic.integer("minReplicas", 1, kMostReplicas).value_or(1)), 1};
    spec.elastic->max = static_cast<int>(elastic.integer("maxReplicas", 1, kMostReplicas).value_or(1));
    if (!elastic.has("maxReplicas")) elastic.refuse("maxReplicas", "an elastic job needs it");
  }
  if (section.has("recovery")) {
    Section recovery = section.section("recovery");
    spec.recovery = recovery.flag("enabled", true);
    spec.recovery_path = recovery.text("path");
    spec.recovery_clear = recovery.flag("clear", false);
  }
  read_security(section.section("security"), spec);
  read_policy(section.section("runPolicy"), spec);
  check_counts(section, spec);
  check_rules(section, spec);
  if (spec.mode == Mode::scheduler && spec.roles.contains(Role::worker)) {
    RoleSpec& scheduler = spec.roles[Role::scheduler];
    if (scheduler.pod_template.empty()) scheduler.pod_template = spec.roles[Role::worker].pod_template;
  }
  check_name(job_name, spec, problems);
  return spec;
}

Job parse_job(const json& object) {
  Job job;
  job.space = space_of(object);
  job.name = name_of(object);
  job.uid = uid_of(object);
  job.version = version_of(object);
  const json& about = object_at(object, "metadata");
  job.generation = integer_at(about, "generation").value_or(0);
  job.deleting = !text_at(about, "deletionTimestamp").empty();
  for (const json& finalizer : list_at(about, "finalizers")) {
    if (finalizer.is_string()) job.finalizers.push_back(finalizer);
  }
  job.spec = parse_spec(object_at(object, "spec"), job.name, job.problems);
  job.status = parse_status(object_at(object, "status"));
  return job;
}

}  // namespace lockstep::kube
