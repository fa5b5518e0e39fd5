// The flags --config and KEY=VALUE of commands that need only the section `cluster`.
#include <lockstep/base/config.h>
#include <lockstep/base/config_reader.h>
#include <lockstep/cli/config_flags.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/foreign_tables.h>
#include <lockstep/train/resolved_run.h>

#include <CLI/CLI.hpp>

namespace lockstep::cli {
namespace {

struct OnlyCluster {
  ClusterOptions cluster;
};

void describe(ConfigFields& fields, OnlyCluster& c) {
  fields.section("cluster", c.cluster, "a job whose workers meet through a scheduler");
}

}  // namespace

std::shared_ptr<ClusterConfig> add_cluster_config(CLI::App& command) {
  auto config = std::make_shared<ClusterConfig>();
  command.add_option("--config", config->file, "A run's YAML file; its section 'cluster' is read")->type_name("FILE");
  add_override_keys(command, config->overrides, "Replaces or gives a key, e.g. cluster.worker_num=8");
  return config;
}

ClusterOptions read_cluster_options(const ClusterConfig& config, const KnownParts& parts) {
  if (!config.file.empty()) return train::load_run_config(config.file, config.overrides, parts).cluster;
  const auto given = parse_config("{}", "the command line", config.overrides);
  OnlyCluster read;
  read_fields(given.root, "", train::refused_words(), [&](ConfigFields& fields) { describe(fields, read); });
  return read.cluster;
}

}  // namespace lockstep::cli
