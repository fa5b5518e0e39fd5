// Typed configuration: each field of a struct is described once, for reading, printing and documentation.
//
//   struct OptimizerConfig {
//     std::string name = "momentum";
//     double lr = 0.1;
//     std::optional<double> clip_norm;
//   };
//   void describe(ConfigFields& fields, OptimizerConfig& c) {   // in the namespace of the struct
//     fields.field("name", c.name, one_of({"sgd", "momentum"}), "the update rule");
//     fields.field("lr", c.lr, above(0), "learning rate before the schedule");
//     fields.field("clip_norm", c.clip_norm, above(0), "largest norm of all gradients together");
//   }
//   struct RunConfig { OptimizerConfig optimizer; };
//   void describe(ConfigFields& fields, RunConfig& c) { fields.section("optimizer", c.optimizer, "how to step"); }
//
//   RunConfig run = read_config<RunConfig>(load_config("run.yaml", overrides));
#pragma once

#include <lockstep/base/config_fields.h>
#include <lockstep/base/config_source.h>

#include <string>
#include <vector>

namespace lockstep {

/// Fills `config` from a source; keys that are absent keep their value. All mistakes found (unknown keys, wrong types,
/// values out of range, missing required keys) are reported in one Error(config), the first ten in full; its position
/// is that of the first.
template <typename T>
void read_config(const ConfigSource& source, T& config) {
  read_fields(source.root, "", [&](ConfigFields& fields) { describe(fields, config); });
}

template <typename T>
T read_config(const ConfigSource& source) {
  T config;
  read_config(source, config);
  return config;
}

/// The same for a part of a source, e.g. the arguments of one item of a list; `path` is the prefix of the keys in
/// messages. A null node is an empty section.
template <typename T>
T read_config(const ConfigNode& node, std::string_view path) {
  T config;
  read_fields(node, path, [&](ConfigFields& fields) { describe(fields, config); });
  return config;
}

/// The whole configuration as YAML; `read_config` of that text gives an equal configuration.
template <typename T>
std::string print_config(T config) {
  return print_fields([&](ConfigFields& fields) { describe(fields, config); });
}

/// All keys, in the order of their description, with T's defaults.
template <typename T>
std::vector<ConfigKey> list_keys() {
  T config;
  return list_fields([&](ConfigFields& fields) { describe(fields, config); });
}

}  // namespace lockstep
