// The table of Kubernetes resources (group, version, plural, kind) and their URL paths.
#include <apps/operator/api/resource.h>

#include <fmt/format.h>

namespace lockstep::kube {

std::string Resource::api_version() const { return group.empty() ? version : group + "/" + version; }

const Resource& lockstep_jobs() {
  static const Resource resource{std::string(kGroup), "v1alpha1", "lockstepjobs", "LockstepJob"};
  return resource;
}

const Resource& pods() {
  static const Resource resource{"", "v1", "pods", "Pod"};
  return resource;
}

const Resource& services() {
  static const Resource resource{"", "v1", "services", "Service"};
  return resource;
}

const Resource& config_maps() {
  static const Resource resource{"", "v1", "configmaps", "ConfigMap"};
  return resource;
}

const Resource& secrets() {
  static const Resource resource{"", "v1", "secrets", "Secret"};
  return resource;
}

const Resource& events() {
  static const Resource resource{"", "v1", "events", "Event"};
  return resource;
}

const Resource& leases() {
  static const Resource resource{"coordination.k8s.io", "v1", "leases", "Lease"};
  return resource;
}

const Resource& volcano_pod_groups() {
  static const Resource resource{"scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup"};
  return resource;
}

const Resource& scheduling_pod_groups() {
  static const Resource resource{"scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup"};
  return resource;
}

std::string path_of(const Resource& resource, std::string_view space) {
  std::string path = resource.group.empty() ? "/api/" : "/apis/";
  path += resource.api_version();
  if (!space.empty()) path += fmt::format("/namespaces/{}", space);
  return path + "/" + resource.plural;
}

std::string path_of(const Resource& resource, std::string_view space, std::string_view name,
                    std::string_view subresource) {
  std::string path = fmt::format("{}/{}", path_of(resource, space), name);
  if (!subresource.empty()) path += fmt::format("/{}", subresource);
  return path;
}

std::string escape_query(std::string_view text) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  std::string escaped;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos) {
      escaped += c;
    } else {
      escaped += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return escaped;
}

}  // namespace lockstep::kube
