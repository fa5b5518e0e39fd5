// The options of commands that read only the section `cluster` of a configuration.
#pragma once

#include <lockstep/world/cluster_settings.h>

#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::cli {

struct ClusterConfig {
  std::string file;  ///< empty: none
  std::vector<std::string> overrides;
};

/// Adds --config FILE and KEY=VALUE.
std::shared_ptr<ClusterConfig> add_cluster_config(CLI::App& command);

/// Error(config) as read_run_config's; without a file, for overrides of other sections too.
ClusterOptions read_cluster_options(const ClusterConfig& config);

}  // namespace lockstep::cli
