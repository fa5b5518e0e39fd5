// Manifests of the operator: RBAC, Deployment, NetworkPolicy and kustomizations, for a cluster or one namespace.
#include <apps/operator/api/resource.h>
#include <apps/operator/controller/manifests.h>
#include <apps/operator/job/job.h>
#include <apps/operator/job/json.h>
#include <apps/operator/job/names.h>

namespace lockstep::kube {
namespace {

using Json = nlohmann::ordered_json;
using ArgumentList = std::vector<std::string>;

constexpr const char* kName = "lockstep-operator";
constexpr const char* kSpace = "lockstep-system";
constexpr const char* kImage = "lockstep-operator:latest";
constexpr int kProbePort = 8080;
constexpr int kEtcdPort = 2379;
constexpr int kUser = 65532;

Json labels() { return {{"app.kubernetes.io/name", kName}}; }

Json about(const std::string& name, bool has_space = true) {
  Json made = {{"name", name}};
  if (has_space) made["namespace"] = kSpace;
  made["labels"] = labels();
  return made;
}

Json rule(const ArgumentList& groups, const ArgumentList& resources, const ArgumentList& verbs) {
  return {{"apiGroups", groups}, {"resources", resources}, {"verbs", verbs}};
}

/// The permissions that the reconciler and the watches need, and no others.
Json job_rules() {
  const ArgumentList make_and_watch = {"get", "list", "watch", "create", "delete"};
  return Json::array({rule({std::string(kGroup)}, {"lockstepjobs"}, {"get", "list", "watch", "patch", "delete"}),
                      rule({std::string(kGroup)}, {"lockstepjobs/status"}, {"update"}),
                      // For ownerReferences that block the owner's deletion.
                      rule({std::string(kGroup)}, {"lockstepjobs/finalizers"}, {"update"}),
                      rule({""}, {"pods"}, make_and_watch),
                      // The garbage collector deletes them with the job.
                      rule({""}, {"services", "secrets"}, {"get", "list", "watch", "create"}),
                      rule({""}, {"configmaps"}, {"get", "list", "watch", "create", "update"}),
                      rule({volcano_pod_groups().group, scheduling_pod_groups().group}, {"podgroups"}, make_and_watch),
                      rule({""}, {"events"}, {"create", "patch"})});
}

Json lease_rules() { return Json::array({rule({leases().group}, {"leases"}, {"get", "create", "update"})}); }

Json role(const char* kind, const std::string& name, Json rules) {
  return {{"apiVersion", "rbac.authorization.k8s.io/v1"},
          {"kind", kind},
          {"metadata", about(name, kind == std::string("Role"))},
          {"rules", std::move(rules)}};
}

Json binding(const std::string& of_kind, const std::string& name) {
  return {{"apiVersion", "rbac.authorization.k8s.io/v1"},
          {"kind", of_kind + "Binding"},
          {"metadata", about(name, of_kind == "Role")},
          {"roleRef", {{"apiGroup", "rbac.authorization.k8s.io"}, {"kind", of_kind}, {"name", name}}},
          {"subjects", Json::array({{{"kind", "ServiceAccount"}, {"name", kName}, {"namespace", kSpace}}})}};
}

Json service_account() { return {{"apiVersion", "v1"}, {"kind", "ServiceAccount"}, {"metadata", about(kName)}}; }

Json space() { return {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", about(kSpace, false)}}; }

Json probe(const char* path) { return {{"httpGet", {{"path", path}, {"port", "probes"}}}, {"periodSeconds", 10}}; }

Json container(bool namespaced) {
  ArgumentList arguments = {"operator", "--probe-address", "0.0.0.0:" + std::to_string(kProbePort)};
  Json made = {{"name", "operator"}, {"image", kImage}};
  if (namespaced) {
    arguments.insert(arguments.end(), {"--namespace", "$(POD_NAMESPACE)"});
    made["env"] = Json::array(
        {{{"name", "POD_NAMESPACE"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "metadata.namespace"}}}}}}});
  }
  made["command"] = Json::array({"lockstep"});
  made["args"] = arguments;
  made["ports"] = Json::array({{{"name", "probes"}, {"containerPort", kProbePort}}});
  made["livenessProbe"] = probe("/healthz");
  made["readinessProbe"] = probe("/readyz");
  made["resources"] = {{"requests", {{"cpu", "50m"}, {"memory", "64Mi"}}}, {"limits", {{"memory", "512Mi"}}}};
  made["securityContext"] = {{"allowPrivilegeEscalation", false},
                             {"readOnlyRootFilesystem", true},
                             {"capabilities", {{"drop", Json::array({"ALL"})}}}};
  return made;
}

Json deployment(bool namespaced) {
  const Json pod_spec = {
      {"serviceAccountName", kName},
      {"terminationGracePeriodSeconds", 30},
      {"securityContext",
       {{"runAsNonRoot", true}, {"runAsUser", kUser}, {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
      {"containers", Json::array({container(namespaced)})}};
  return {{"apiVersion", "apps/v1"},
          {"kind", "Deployment"},
          {"metadata", about(kName)},
          {"spec",
           {{"replicas", 2},  // one is the leader, the other is on standby
            {"selector", {{"matchLabels", labels()}}},
            {"template", {{"metadata", {{"labels", labels()}}}, {"spec", pod_spec}}}}}};
}

/// Ingress: probes and metrics. Egress: DNS, the API server (its address and port differ between clusters), jobs'
/// schedulers, and the etcd with their states.
Json network_policy() {
  return {{"apiVersion", "networking.k8s.io/v1"},
          {"kind", "NetworkPolicy"},
          {"metadata", about(kName)},
          {"spec",
           {{"podSelector", {{"matchLabels", labels()}}},
            {"policyTypes", Json::array({"Ingress", "Egress"})},
            {"ingress", Json::array({{{"ports", Json::array({{{"port", kProbePort}, {"protocol", "TCP"}}})}}})},
            {"egress", Json::array({{{"ports", Json::array({{{"port", 53}, {"protocol", "UDP"}},
                                                            {{"port", 53}, {"protocol", "TCP"}},
                                                            {{"port", 443}, {"protocol", "TCP"}},
                                                            {{"port", 6443}, {"protocol", "TCP"}},
                                                            {{"port", kSchedulerPort}, {"protocol", "TCP"}},
                                                            {{"port", kEtcdPort}, {"protocol", "TCP"}}})}}})}}}};
}

Json kustomization(const ArgumentList& files, bool has_space) {
  Json made = {{"apiVersion", "kustomize.config.k8s.io/v1beta1"}, {"kind", "Kustomization"}};
  if (has_space) made["namespace"] = kSpace;
  made["resources"] = files;
  return made;
}

}  // namespace

std::map<std::string, std::vector<Json>> deployment_manifests() {
  std::map<std::string, std::vector<Json>> files;
  files["crd/lockstepjobs.yaml"] = {custom_resource_definition()};
  files["crd/kustomization.yaml"] = {kustomization({"lockstepjobs.yaml"}, false)};
  for (const bool namespaced : {false, true}) {
    const std::string folder = namespaced ? "namespaced/" : "cluster/";
    const std::string kind = namespaced ? "Role" : "ClusterRole";
    const std::string leader = std::string(kName) + "-leader";
    std::vector<Json> rbac = {role(kind.c_str(), kName, job_rules()), binding(kind, kName),
                              role("Role", leader, lease_rules()), binding("Role", leader)};
    rbac.insert(rbac.begin(), service_account());
    files[folder + "rbac.yaml"] = std::move(rbac);
    files[folder + "deployment.yaml"] = {deployment(namespaced)};
    files[folder + "network_policy.yaml"] = {network_policy()};
    ArgumentList names = {"rbac.yaml", "deployment.yaml", "network_policy.yaml"};
    if (!namespaced) {
      // A copy, because not all versions of kustomize accept folders as resources, and none accepts a file of another
      // folder.
      files[folder + "lockstepjobs.yaml"] = {custom_resource_definition()};
      files[folder + "namespace.yaml"] = {space()};
      names.insert(names.begin(), {"lockstepjobs.yaml", "namespace.yaml"});
    }
    files[folder + "kustomization.yaml"] = {kustomization(names, !namespaced)};
  }
  // These manifests are for a namespace of the user instead of ours.
  for (auto& [file, objects] : files) {
    if (!file.starts_with("namespaced/")) continue;
    for (Json& object : objects) {
      if (object.contains("metadata")) object["metadata"].erase("namespace");
      if (object.contains("subjects")) object["subjects"][0].erase("namespace");
    }
  }
  return files;
}

std::string print_manifest(const std::vector<Json>& objects) {
  std::string text =
      "# Written by 'lockstep operator manifests'; change it by patches of a kustomization of your own.\n";
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (i > 0) text += "---\n";
    text += print_yaml_of(objects[i]);
  }
  return text;
}

}  // namespace lockstep::kube
