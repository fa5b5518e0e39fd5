// The objects that install the operator in a cluster: the files under deploy/.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::kube {

/// The objects of each file, by its path relative to the folder.
///
///     crd/          the CustomResourceDefinition
///     cluster/      an operator for all namespaces, in the namespace lockstep-system
///     namespaced/   an operator for its own namespace only
std::map<std::string, std::vector<nlohmann::ordered_json>> deployment_manifests();

/// The text of such a file.
std::string print_manifest(const std::vector<nlohmann::ordered_json>& objects);

}  // namespace lockstep::kube
