// The flags of commands that read a configuration: KEY=VALUE, and the options of those that read only its section
// `cluster`.
#pragma once

#include <lockstep/cli/command.h>
#include <lockstep/world/cluster_settings.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::cli {

/// Accepts `key.path=value` arguments. They are stored in `overrides`, which must outlive `command`.
inline void add_override_keys(CLI::App& command, std::vector<std::string>& overrides, const std::string& help) {
  // CLI11 2.4 rejects a name with '='.
  command.add_option("KEYS", overrides, help)->type_name("KEY=VALUE");
}

/// The options of commands that read only the section `cluster` of a configuration.
struct ClusterConfig {
  std::string file;  ///< empty: no file
  std::vector<std::string> overrides;
};

/// Adds --config FILE and KEY=VALUE.
std::shared_ptr<ClusterConfig> add_cluster_config(CLI::App& command);

/// Error(config) as in load_run_config(); without a file, also for overrides of other sections.
ClusterOptions read_cluster_options(const ClusterConfig& config, const KnownParts& parts);

}  // namespace lockstep::cli
