// The objects that a job consists of, as they are created.
#pragma once

#include <apps/operator/decide/decide.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::kube {

/// `status`: the attempt, the rank's replacements and the number of workers with which the Pod is started.
nlohmann::json make_pod(const Job& job, const Status& status, GangScheduler gang, Role role, int index);

/// Gives each Pod a name in DNS.
nlohmann::json make_service(const Job& job);

/// `hosts`: the names of the workers in the order of their ranks.
nlohmann::json make_config_map(const Job& job, const Status& status);

nlohmann::json make_pod_group(const Job& job, const Status& status, GangScheduler gang);

/// The kind of the PodGroup; null without a scheduler of gangs.
const Resource* pod_groups_of(GangScheduler gang);

/// The names that the certificates of a job must have.
std::vector<std::string> certificate_hosts(const Job& job);

/// The paths of the certificates and of the ConfigMap in each container.
inline constexpr const char* kTlsFolder = "/etc/lockstep/tls";
inline constexpr const char* kJobFolder = "/etc/lockstep/job";

}  // namespace lockstep::kube
