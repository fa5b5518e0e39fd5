// A model that is trained on one device and on a mesh, to compare.
#pragma once

#include <lockstep/global/global_tensor.h>

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>

namespace lockstep::test {

struct TrainedModel {
  std::string name;
  std::function<std::shared_ptr<torch::nn::Module>()> make;  ///< the same weights after the same seed
  std::function<torch::Tensor(torch::nn::Module&, const torch::Tensor&)> forward;
  torch::Tensor inputs;   ///< the same in each step
  torch::Tensor targets;  ///< classes
};

struct Plan {
  std::string name;
  ModulePlan parameters;
  Placements batch;  ///< of inputs and targets
};

/// Five steps in double precision; each loss, and in the end all parameters and buffers, are those of one device, to a
/// relative and absolute 1e-7. Parameters still lie as planned. Called by all ranks of the mesh.
void expect_trained_as_on_one_device(const TrainedModel& model, const Mesh& mesh, const Plan& plan);

}  // namespace lockstep::test
