// The CustomResourceDefinition of LockstepJobs.
#pragma once

#include <nlohmann/json.hpp>

namespace lockstep::kube {

/// For apiextensions.k8s.io/v1: a structural schema with defaults, ranges and enums, without features that servers of
/// version 1.20 lack.
nlohmann::ordered_json custom_resource_definition();

}  // namespace lockstep::kube
