// Builders of a job's Kubernetes objects: Pods with their variables, headless Service, ConfigMap of hosts, PodGroup.
#include <apps/operator/decide/objects.h>
#include <apps/operator/job/json.h>
#include <apps/operator/job/names.h>
#include <lockstep/base/text.h>

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::kube {
namespace {

using nlohmann::json;

constexpr int kGraceSeconds = 120;  // enough time for a checkpoint

/// An ordered list of variables; the user's variables are kept.
class Variables {
 public:
  explicit Variables(json& container) : list_(container["env"]) {
    if (!list_.is_array()) list_ = json::array();
    given_ = list_;
    list_ = json::array();
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;
  /// Appended to ours, so that the user's variables may refer to ours as $(NAME).
  ~Variables() {
    for (json& variable : given_) list_.push_back(std::move(variable));
  }

  void set(const char* name, const std::string& value) {
    if (!is_given(name)) list_.push_back({{"name", name}, {"value", value}});
  }
  void set_from_field(const char* name, const char* field) {
    if (!is_given(name)) list_.push_back({{"name", name}, {"valueFrom", {{"fieldRef", {{"fieldPath", field}}}}}});
  }

 private:
  bool is_given(const char* name) const {
    return std::any_of(given_.begin(), given_.end(), [&](const json& v) { return text_at(v, "name") == name; });
  }

  json& list_;
  json given_;
};

json& main_container(json& pod_spec) {
  json& containers = pod_spec["containers"];
  for (json& container : containers) {
    if (text_at(container, "name") == "lockstep") return container;
  }
  return containers.at(0);
}

void set_scheduler_variables(const Job& job, const Status& status, Role role, Variables& variables) {
  const bool scheduler = role == Role::scheduler;
  variables.set("MS_ROLE", scheduler ? "MS_SCHED" : role == Role::ps ? "MS_PSERVER" : "MS_WORKER");
  variables.set("MS_WORKER_NUM", std::to_string(status.workers));
  variables.set("MS_SERVER_NUM", std::to_string(job.spec.wanted(Role::ps)));
  // The scheduler listens on this address; other Pods use its name, because they must resolve it again after a
  // replacement.
  if (scheduler) {
    variables.set_from_field("MS_SCHED_HOST", "status.podIP");
  } else {
    variables.set("MS_SCHED_HOST", pod_address(job, Role::scheduler, 0));
  }
  variables.set("MS_SCHED_PORT", std::to_string(kSchedulerPort));
  variables.set_from_field("MS_NODE_ID", "metadata.name");
  if (job.spec.recovery) {
    variables.set("MS_ENABLE_RECOVERY", "1");
    variables.set("MS_RECOVERY_PATH", state_place(job, status.attempt));
  }
}

/// GPUs of a container, each of which gets a rank.
std::int64_t gpus_of(const json& container) {
  std::int64_t gpus = 0;
  for (const auto& [key, value] : object_at(object_at(container, "resources"), "limits").items()) {
    if (!key.ends_with("/gpu")) continue;
    if (value.is_number_integer()) gpus += value.get<std::int64_t>();
    if (value.is_string()) gpus += parse_integer(value.get<std::string>()).value_or(0);
  }
  return gpus;
}

void set_launcher_variables(const Job& job, const Status& status, int index, std::int64_t gpus, Variables& variables) {
  const auto& elastic = job.spec.elastic;
  variables.set("PET_NNODES",
                elastic ? fmt::format("{}:{}", elastic->min, elastic->max) : std::to_string(status.workers));
  variables.set("PET_RDZV_BACKEND", "c10d");
  variables.set("PET_RDZV_ENDPOINT", fmt::format("{}:{}", pod_address(job, Role::worker, 0), kStorePort));
  variables.set("PET_RDZV_ID", fmt::format("{}-{}", job.uid, status.attempt));
  // The Pod's own name may not be in DNS yet.
  variables.set("PET_RDZV_CONF", index == 0 ? "is_host=1" : "is_host=0");
  variables.set("PET_MAX_RESTARTS", std::to_string(job.spec.backoff_limit));
  if (gpus > 0) variables.set("PET_NPROC_PER_NODE", std::to_string(gpus));
}

void set_security_variables(const Job& job, Variables& variables) {
  const bool scheduler = job.spec.mode == Mode::scheduler;
  if (job.spec.tls == TlsSource::insecure) {
    variables.set("LOCKSTEP_ALLOW_INSECURE", "1");
    return;
  }
  variables.set(scheduler ? "LOCKSTEP_ENABLE_SSL" : "LOCKSTEP_ENCRYPT", "1");
  variables.set("LOCKSTEP_CLUSTER_CONFIG", std::string(kTlsFolder) + "/config.json");
}

void mount(json& pod_spec, json& container, const char* name, const char* folder, json source) {
  source["name"] = name;
  pod_spec["volumes"].push_back(std::move(source));
  container["volumeMounts"].push_back({{"name", name}, {"mountPath", folder}, {"readOnly", true}});
}

json about(const Job& job, const std::string& name) {
  return {{"name", name}, {"namespace", job.space}, {"labels", job_labels(job)}, {"ownerReferences", owned_by(job)}};
}

}  // namespace

json make_pod(const Job& job, const Status& status, GangScheduler gang, Role role, int index) {
  const json& wanted = job.spec.roles.at(role).pod_template;
  json metadata = about(job, pod_name(job.name, role, index));
  for (const char* key : {"labels", "annotations"}) {
    for (const auto& [name, value] : object_at(object_at(wanted, "metadata"), key).items()) {
      if (!metadata[key].contains(name)) metadata[key][name] = value;
    }
  }
  metadata["labels"][kRoleLabel] = name(role);
  metadata["labels"][kIndexLabel] = std::to_string(index);
  metadata["labels"][kAttemptLabel] = std::to_string(status.attempt);
  metadata["labels"][kReplacementLabel] = std::to_string(status.replacement(role, index));

  json spec = object_at(wanted, "spec");
  spec["hostname"] = pod_name(job.name, role, index);
  spec["subdomain"] = service_name(job);
  spec["restartPolicy"] = "Never";  // the operator restarts Pods: it selects the failures for a restart, and counts
  // The variables of a Service named "master" or "ms-sched" would be MASTER_PORT and MS_SCHED_PORT.
  if (!spec.contains("enableServiceLinks")) spec["enableServiceLinks"] = false;
  if (!spec.contains("terminationGracePeriodSeconds")) spec["terminationGracePeriodSeconds"] = kGraceSeconds;
  json& container = main_container(spec);
  {
    Variables variables(container);
    if (job.spec.mode == Mode::scheduler) set_scheduler_variables(job, status, role, variables);
    if (job.spec.mode == Mode::run) set_launcher_variables(job, status, index, gpus_of(container), variables);
    if (job.spec.mode != Mode::none) set_security_variables(job, variables);
    variables.set("TORCHELASTIC_ERROR_FILE", "/dev/termination-log");
  }
  if (!secret_name(job).empty() && job.spec.mode != Mode::none) {
    mount(spec, container, "lockstep-tls", kTlsFolder, {{"secret", {{"secretName", secret_name(job)}}}});
  }
  mount(spec, container, "lockstep-job", kJobFolder,
        {{"configMap", {{"name", config_map_name(job)}, {"optional", true}}}});
  if (job.spec.gang && gang == GangScheduler::volcano) {
    metadata["annotations"]["scheduling.k8s.io/group-name"] = pod_group_name(job);
    if (!spec.contains("schedulerName")) spec["schedulerName"] = "volcano";
  }
  if (job.spec.gang && gang == GangScheduler::scheduling) {
    metadata["labels"]["scheduling.x-k8s.io/pod-group"] = pod_group_name(job);
  }
  return {{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", std::move(metadata)}, {"spec", std::move(spec)}};
}

json make_service(const Job& job) {
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", about(job, service_name(job))},
          {"spec",
           {{"clusterIP", "None"},
            {"publishNotReadyAddresses", true},
            {"selector", {{kJobNameLabel, job.name}, {kJobUidLabel, job.uid}}},
            {"ports", json::array({{{"name", "scheduler"}, {"port", kSchedulerPort}},
                                   {{"name", "store"}, {"port", kStorePort}}})}}}};
}

json make_config_map(const Job& job, const Status& status) {
  const int workers = job.spec.elastic ? job.spec.wanted(Role::worker) : status.workers;
  std::string hosts;
  for (int index = 0; index < workers; ++index) hosts += pod_address(job, Role::worker, index) + "\n";
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata", about(job, config_map_name(job))},
          {"data", {{"hosts", hosts}}}};
}

const Resource* pod_groups_of(GangScheduler gang) {
  switch (gang) {
    case GangScheduler::volcano: return &volcano_pod_groups();
    case GangScheduler::scheduling: return &scheduling_pod_groups();
    case GangScheduler::none: break;
  }
  return nullptr;
}

json make_pod_group(const Job& job, const Status& status, GangScheduler gang) {
  const Gang& wanted = *job.spec.gang;
  const int workers = job.spec.elastic ? job.spec.elastic->min : status.workers;
  json spec = {{"minMember",
                wanted.min_available.value_or(workers + job.spec.wanted(Role::scheduler) + job.spec.wanted(Role::ps))}};
  if (!wanted.min_resources.empty()) spec["minResources"] = wanted.min_resources;
  if (gang == GangScheduler::volcano) {
    if (!wanted.queue.empty()) spec["queue"] = wanted.queue;
    if (!wanted.priority_class.empty()) spec["priorityClassName"] = wanted.priority_class;
  } else if (wanted.timeout_s) {
    spec["scheduleTimeoutSeconds"] = *wanted.timeout_s;
  }
  const Resource& resource = *pod_groups_of(gang);
  return {{"apiVersion", resource.api_version()},
          {"kind", resource.kind},
          {"metadata", about(job, pod_group_name(job))},
          {"spec", std::move(spec)}};
}

std::vector<std::string> certificate_hosts(const Job& job) {
  const auto space = fmt::format("{}.{}.svc", service_name(job), job.space);
  const auto first = pod_name(job.name, Role::scheduler, 0);
  return {fmt::format("{}.{}", first, space), fmt::format("{}.{}.cluster.local", first, space),
          fmt::format("*.{}", space), "localhost"};
}

}  // namespace lockstep::kube
