// Obstacles to the fork server: whether the ranks of a job may be forks of one process that has loaded their program.
#pragma once

#include <lockstep/cluster/launch.h>

#include <optional>
#include <string>

namespace lockstep::cluster {

/// Why the ranks have to be started one by one, as far as known before the program is loaded; nullopt when they may be
/// forks. Error(environment) for an unknown LOCKSTEP_START_METHOD.
std::optional<std::string> obstacle_to_forking(const LaunchOptions& options);

}  // namespace lockstep::cluster
