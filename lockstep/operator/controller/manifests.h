// The objects that install the operator in a cluster: the files under deploy/.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::kube {

/// File, relative to the folder, to the objects in it.
///
///     crd/          the CustomResourceDefinition
///     cluster/      an operator for all namespaces, in the namespace lockstep-system
///     namespaced/   an operator for the namespace that it is in
std::map<std::string, std::vector<nlohmann::ordered_json>> deployment_manifests();

/// The text of such a file.
std::string print_manifest(const std::vector<nlohmann::ordered_json>& objects);

}  // namespace lockstep::kube
