// The kinds of objects that the operator handles, and their paths on an API server.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::kube {

struct Resource {
  std::string group;  ///< empty: the core group
  std::string version;
  std::string plural;
  std::string kind;

  /// "v1", "apps/v1": the field apiVersion of its objects.
  std::string api_version() const;

  bool operator==(const Resource&) const = default;
};

inline constexpr std::string_view kGroup = "lockstep.dev";

const Resource& lockstep_jobs();
const Resource& pods();
const Resource& services();
const Resource& config_maps();
const Resource& secrets();
const Resource& events();
const Resource& leases();
const Resource& volcano_pod_groups();
const Resource& scheduling_pod_groups();  ///< of the scheduler plugins of Kubernetes

/// The path of all objects of a kind. `space` empty: those of all namespaces.
std::string path_of(const Resource& resource, std::string_view space);

/// The path of one object, or of its subresource such as "status".
std::string path_of(const Resource& resource, std::string_view space, std::string_view name,
                    std::string_view subresource = "");

/// A value for a query, with all but letters, digits and "-._~" escaped.
std::string escape_query(std::string_view text);

}  // namespace lockstep::kube
