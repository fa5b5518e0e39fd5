#include <lockstep/base/error.h>
#include <lockstep/operator/api/resource.h>
#include <lockstep/operator/job/convert.h>

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

namespace lockstep::kube {
namespace {

using Json = nlohmann::ordered_json;

const Json& at(const Json& object, const char* key) {
  static const Json kNone = Json::object();
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : kNone;
}

/// One job on its way from the other kind to ours.
class Conversion {
 public:
  Conversion(const Json& from, const char* kind) : from_(from) {
    const std::string found = from.is_object() ? from.value("kind", "") : "";
    if (found != kind) {
      fail(ErrorKind::config, "convert", "the object is of kind '{}', and a {} is wanted", found, kind);
    }
    result_.job = {{"apiVersion", lockstep_jobs().api_version()}, {"kind", lockstep_jobs().kind}};
    for (const char* key : {"name", "namespace", "labels", "annotations"}) {
      if (at(from, "metadata").contains(key)) result_.job["metadata"][key] = from["metadata"][key];
    }
  }

  const Json& spec() const { return at(from_, "spec"); }
  Json& made() { return result_.job["spec"]; }
  void remark(std::string text) { result_.remarks.push_back(std::move(text)); }
  Converted finish() { return std::move(result_); }

  /// A role with the container that trains under our name.
  Json role(const Json& given, const char* container) {
    Json made;
    for (const char* key : {"replicas", "restartPolicy", "template"}) {
      if (given.contains(key)) made[key] = given[key];
    }
    if (!made.contains("template")) return made;
    for (Json& each : made["template"]["spec"]["containers"]) {
      if (each.value("name", "") == container) each["name"] = "lockstep";
    }
    return made;
  }

  void copy_policy(const Json& policy) {
    for (const auto& [key, value] : policy.items()) {
      static constexpr std::initializer_list<const char*> kKnown = {
          "suspend",         "cleanPodPolicy", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished",
          "schedulingPolicy"};
      if (std::any_of(kKnown.begin(), kKnown.end(), [&](const char* known) { return key == known; })) {
        made()["runPolicy"][key] = value;
      } else {
        remark(fmt::format("runPolicy.{} has no counterpart and is left out", key));
      }
    }
  }

  void note_other_fields(std::initializer_list<const char*> known) {
    for (const auto& [key, value] : spec().items()) {
      if (std::any_of(known.begin(), known.end(), [&](const char* each) { return key == each; })) continue;
      remark(fmt::format("spec.{} has no counterpart and is left out", key));
    }
  }

 private:
  const Json& from_;
  Converted result_;
};

}  // namespace

Converted convert_msjob(const Json& object) {
  Conversion conversion(object, "MSJob");
  const Json& spec = conversion.spec();
  for (const auto& [role, given] : at(spec, "msReplicaSpecs").items()) {
    Json made = conversion.role(given, "mindspore");
    if (!made.contains("restartPolicy")) made["restartPolicy"] = "Never";  // MSJob's default
    conversion.made()["replicaSpecs"][role] = std::move(made);
  }
  conversion.made()["mode"] = at(spec, "msReplicaSpecs").contains("Scheduler") ? "Scheduler" : "None";
  if (spec.contains("successPolicy")) {
    const Json& policy = spec["successPolicy"];
    conversion.made()["successPolicy"] = policy.is_string() && policy == "AllWorkers" ? "AllWorkers" : "";
  }
  conversion.copy_policy(at(spec, "runPolicy"));
  if (spec.value("enableDynamicWorker", false)) {
    conversion.remark(
        "enableDynamicWorker: failed workers are not ignored here; recovery (recovery.enabled, recovery.path) "
        "replaces them");
  }
  conversion.note_other_fields({"msReplicaSpecs", "successPolicy", "runPolicy", "enableDynamicWorker"});
  conversion.remark(
      "the containers' image and command are MindSpore's: give an image with lockstep, and a command such as "
      "[lockstep, train, --config, run.yaml]");
  conversion.remark(
      "connections use TLS with certificates that the operator makes; security: {tls: Insecure} is as before");
  return conversion.finish();
}

Converted convert_pytorchjob(const Json& object) {
  Conversion conversion(object, "PyTorchJob");
  const Json& spec = conversion.spec();
  const Json& roles = at(spec, "pytorchReplicaSpecs");
  const bool has_master = roles.contains("Master");
  Json worker = conversion.role(at(roles, has_master && !roles.contains("Worker") ? "Master" : "Worker"), "pytorch");
  if (has_master && roles.contains("Worker")) {
    const auto count = [&](const char* role) { return roles[role].value("replicas", 1); };
    worker["replicas"] = count("Master") + count("Worker");
    if (at(roles["Master"], "template") != at(roles["Worker"], "template")) {
      conversion.remark(
          "Master's template differs from Worker's and is left out: all ranks are Workers here, and rank 0 is "
          "worker 0");
    }
  }
  conversion.made()["replicaSpecs"]["Worker"] = std::move(worker);
  conversion.made()["mode"] = "Run";
  if (spec.contains("elasticPolicy")) {
    const Json& elastic = spec["elasticPolicy"];
    for (const auto& [key, value] : elastic.items()) {
      if (key == "minReplicas" || key == "maxReplicas") {
        conversion.made()["elastic"][key] = value;
      } else {
        conversion.remark(
            fmt::format("elasticPolicy.{} has no counterpart and is left out; PET_ variables of the container "
                        "have the same effect",
                        key));
      }
    }
  }
  if (spec.contains("nprocPerNode")) {
    const Json& processes = spec["nprocPerNode"];
    for (Json& each : conversion.made()["replicaSpecs"]["Worker"]["template"]["spec"]["containers"]) {
      if (each.value("name", "") != "lockstep") continue;
      each["env"].push_back({{"name", "PET_NPROC_PER_NODE"},
                             {"value", processes.is_string() ? processes.get<std::string>() : processes.dump()}});
    }
  }
  conversion.copy_policy(at(spec, "runPolicy"));
  conversion.note_other_fields({"pytorchReplicaSpecs", "elasticPolicy", "nprocPerNode", "runPolicy"});
  conversion.remark(
      "MASTER_ADDR, RANK and WORLD_SIZE are not set for the Pod: its command must be 'torchrun ...' or "
      "'lockstep run ...', which find each other by PET_ variables and set them for each rank");
  return conversion.finish();
}

}  // namespace lockstep::kube
