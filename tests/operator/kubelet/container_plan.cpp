#include "operator/kubelet/container_plan.h"

#include <apps/operator/api/resource.h>
#include <apps/operator/job/json.h>
#include <lockstep/base/error.h>

#include <fstream>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using kube::list_at;
using kube::object_at;
using kube::text_at;
using nlohmann::json;

// Kubernetes adds one to each Pod; nothing here asks the API server.
constexpr const char* kServiceAccounts = "/var/run/secrets/";

std::string field_of(const json& pod, const PodPlace& place, const std::string& field) {
  if (field == "metadata.name") return kube::name_of(pod);
  if (field == "metadata.namespace") return kube::space_of(pod);
  if (field == "metadata.uid") return kube::uid_of(pod);
  if (field == "spec.nodeName") return text_at(object_at(pod, "spec"), "nodeName");
  if (field == "status.podIP" || field == "status.hostIP") return place.address;
  fail(ErrorKind::data, "kubelet", "the field {} cannot be a variable here", field);
}

std::string value_of(const json& variable, const json& pod, const PodPlace& place, const ReadData& read) {
  const json& source = object_at(variable, "valueFrom");
  if (const json& field = object_at(source, "fieldRef"); !field.empty()) {
    return field_of(pod, place, text_at(field, "fieldPath"));
  }
  for (const auto& [key, plural] : {std::pair("secretKeyRef", "secrets"), std::pair("configMapKeyRef", "configmaps")}) {
    const json& reference = object_at(source, key);
    if (reference.empty()) continue;
    const auto data = read(plural, text_at(reference, "name"));
    const auto found = data ? data->find(text_at(reference, "key")) : decltype(data->find("")){};
    if (!data || found == data->end()) fail(ErrorKind::data, "kubelet", "there is no {}", reference.dump());
    return found->second;
  }
  return text_at(variable, "value");
}

/// The folder of a volume; empty: none, as it is optional.
fs::path make_volume(const json& volume, const PodPlace& place, const ReadData& read) {
  const fs::path folder = place.folder / "volumes" / text_at(volume, "name");
  if (const json& host = object_at(volume, "hostPath"); !host.empty()) return text_at(host, "path");
  if (const json& claim = object_at(volume, "persistentVolumeClaim"); !claim.empty()) {
    if (place.claims.empty()) fail(ErrorKind::data, "kubelet", "there is no folder for claims of volumes");
    fs::create_directories(place.claims / text_at(claim, "claimName"));
    return place.claims / text_at(claim, "claimName");
  }
  fs::create_directories(folder);
  for (const auto& [key, plural, name] :
       {std::tuple("secret", "secrets", "secretName"), std::tuple("configMap", "configmaps", "name")}) {
    const json& source = object_at(volume, key);
    if (source.empty()) continue;
    const auto data = read(plural, text_at(source, name));
    if (!data && kube::true_at(source, "optional")) return {};
    if (!data) fail(ErrorKind::data, "kubelet", "there is no {} '{}'", plural, text_at(source, name));
    for (const auto& [file, bytes] : *data) std::ofstream(folder / file, std::ios::binary) << bytes;
  }
  return folder;  // an emptyDir otherwise
}

void mount_volumes(const json& pod, const json& container, const PodPlace& place, const ReadData& read,
                   Sandbox& sandbox) {
  for (const json& wanted : list_at(container, "volumeMounts")) {
    const auto to = text_at(wanted, "mountPath");
    if (to.starts_with(kServiceAccounts)) continue;
    for (const json& volume : list_at(object_at(pod, "spec"), "volumes")) {
      if (text_at(volume, "name") != text_at(wanted, "name")) continue;
      const auto folder = make_volume(volume, place, read);
      if (!folder.empty()) sandbox.mounts.push_back({folder.string(), to});
    }
  }
}

}  // namespace

std::string expand_variables(const std::string& text, const Environment& variables) {
  std::string expanded;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '$' || at + 1 == text.size()) {
      expanded += text[at];
    } else if (text[at + 1] == '$') {
      expanded += '$';
      ++at;
    } else {
      const auto end = text[at + 1] == '(' ? text.find(')', at) : std::string::npos;
      const auto name = end == std::string::npos ? "" : text.substr(at + 2, end - at - 2);
      const auto found = variables.find(name);
      if (name.empty() || found == variables.end()) {
        expanded += '$';
      } else {
        expanded += found->second;
        at = end;
      }
    }
  }
  return expanded;
}

Sandbox plan_container(const json& pod, const PodPlace& place, const ReadData& read) {
  const json& spec = object_at(pod, "spec");
  const json& container = list_at(spec, "containers").at(0);
  Sandbox sandbox;
  sandbox.host_name = text_at(spec, "hostname").empty() ? kube::name_of(pod) : text_at(spec, "hostname");
  sandbox.folder = text_at(container, "workingDir");
  sandbox.environment["PATH"] = place.path;
  sandbox.environment["HOME"] = "/root";
  for (const json& variable : list_at(container, "env")) {
    sandbox.environment[text_at(variable, "name")] =
        expand_variables(value_of(variable, pod, place, read), sandbox.environment);
  }
  for (const char* key : {"command", "args"}) {
    for (const json& word : list_at(container, key)) {
      sandbox.arguments.push_back(expand_variables(word.get<std::string>(), sandbox.environment));
    }
  }
  if (sandbox.arguments.empty()) {
    fail(ErrorKind::data, "kubelet", "there are no images here: give the container a command");
  }
  mount_volumes(pod, container, place, read, sandbox);
  return sandbox;
}

}  // namespace lockstep::test
