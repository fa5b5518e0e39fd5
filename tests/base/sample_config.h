// A configuration with every kind of field.
#pragma once

#include <lockstep/base/config.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::test {

struct SampleWarmup {
  std::int64_t steps = 5;
  bool operator==(const SampleWarmup&) const = default;
};

struct SampleOptimizer {
  std::string name = "momentum";
  double lr = 0.1;
  double momentum = 0.9;
  std::optional<double> clip_norm;
  bool nesterov = false;
  std::optional<SampleWarmup> warmup;
  bool operator==(const SampleOptimizer&) const = default;
};

struct SampleConfig {
  std::string root;
  std::int64_t epochs = 3;
  std::vector<std::int64_t> hidden = {64, 32};
  std::vector<double> mean = {0.5};
  std::vector<std::string> files;
  std::optional<std::int64_t> seed;
  std::optional<std::string> note;
  std::optional<bool> shuffle;
  ConfigNode transforms;
  SampleOptimizer optimizer;
};

inline void describe(ConfigFields& fields, SampleWarmup& c) {
  fields.field("steps", c.steps, at_least(0), "steps until the full rate");
}

inline void describe(ConfigFields& fields, SampleOptimizer& c) {
  fields.field("name", c.name, one_of({"sgd", "momentum", "adam"}), "the update rule");
  fields.field("lr", c.lr, above(0), "learning rate");
  fields.field("momentum", c.momentum, from_to_below(0, 1), "share of the last step");
  fields.field("clip_norm", c.clip_norm, above(0), "largest gradient norm");
  fields.field("nesterov", c.nesterov, anything(), "look ahead");
  fields.section("warmup", c.warmup, "a slow start");
}

inline void describe(ConfigFields& fields, SampleConfig& c) {
  fields.field("root", c.root, required(), "folder of the data");
  fields.field("epochs", c.epochs, between(1, 1000), "passes over the data");
  fields.field("hidden", c.hidden, at_least(1), "widths");
  fields.field("mean", c.mean, anything(), "by channel");
  fields.field("files", c.files, anything(), "names");
  fields.field("seed", c.seed, at_least(0), "of all random numbers");
  fields.field("note", c.note, anything(), "for people");
  fields.field("shuffle", c.shuffle, anything(), "new order each epoch");
  fields.field("transforms", c.transforms, anything(), "what happens to a picture");
  fields.section("optimizer", c.optimizer, "how to step");
}

}  // namespace lockstep::test
