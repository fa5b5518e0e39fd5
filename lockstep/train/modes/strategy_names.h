// The names that parallel.strategy may use: layers with weights, operators without weights, and modules that only call
// one operator.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/plan/graph.h>
#include <lockstep/train/program.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep::train {

/// The facts about a model for checks of strategies: names of parameters and buffers, sizes of parameters, and the
/// modules without any.
struct ModelFacts {
  std::vector<std::string> names;
  std::map<std::string, std::vector<std::int64_t>> sizes;
  struct Plain {
    std::string name;
    std::string kind;    ///< "ReLU"
    std::string before;  ///< the module with parameters that is registered before it; empty: none
  };
  std::vector<Plain> plain;
};
ModelFacts facts_of(const RunConfig& config, const Program& program);

/// parallel.strategy with each name of a module without parameters (a torch::nn::ReLU called "features.1") replaced by
/// that of its operator ("features.0.relu", named after the preceding module), so that read_strategies() can read the
/// keys. Error(config) with file and line for a key that names nothing in the model.
ConfigNode with_names_of_operators(const ConfigNode& strategy, const ModelFacts& facts, const plan::Graph& graph);

}  // namespace lockstep::train
