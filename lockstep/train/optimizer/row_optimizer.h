// Optimizers of rows (rows/row_rule.h) as one of libtorch's classes: with sparse gradients they read and write only the
// rows of the step, which keep their own state.
#pragma once

#include <lockstep/rows/row_rule.h>
#include <lockstep/train/optimizer/own_optimizer.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::train {

struct RowOptions : torch::optim::OptimizerCloneableOptions<RowOptions>, ScaledRate {
  rows::RuleSettings settings;
  double lr = 0;

  double get_lr() const override { return lr; }
  void set_lr(const double rate) override { lr = rate; }
};

/// The state of one parameter: tensors of the same shape, one for each of rows::state_names of its rule, and its number
/// of steps.
struct RowState : torch::optim::OptimizerCloneableParamState<RowState> {
  rows::Rule rule = rows::Rule::sgd;
  std::array<at::Tensor, 2> tensors{};
  std::int64_t step = 0;
};

/// Parameter groups may have different rules. A dense gradient touches all rows. A step is one of all parameters that
/// have a gradient, even one without rows. Error(unsupported) for parameters that are not float32 on the CPU, global
/// ones, and sparse gradients of several sparse dimensions.
class RowOptimizer : public OwnOptimizer {
 public:
  RowOptimizer(std::vector<torch::optim::OptimizerParamGroup> groups, const RowOptions& defaults);

  torch::Tensor step(LossClosure closure = nullptr) override;
  std::vector<std::string> remembered_tensors() const override;
  NamedTensors memory_of(const at::Tensor& parameter) const override;
  void load_memory_of(const at::Tensor& parameter, NamedTensors& saved) override;
};

}  // namespace lockstep::train
