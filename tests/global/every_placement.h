// Compares an operator on global tensors with the same one on ordinary tensors, however its inputs lie.
#pragma once

#include <lockstep/global/global_tensor.h>

#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

namespace lockstep::test {

struct CaseInput {
  torch::Tensor value;
  bool differentiate = true;  ///< where it is floating
};

struct OperatorCase {
  std::string name;
  std::vector<CaseInput> inputs;
  /// Results that are differentiable get a gradient; what the operator writes into its inputs is a result, too.
  std::function<std::vector<torch::Tensor>(const std::vector<torch::Tensor>&)> run;
  double tolerance = 1e-5;  ///< relative and absolute, of values and gradients
};

/// Every combination of Replicate(), Shard(any dimension) and, of floating inputs, Partial(sum) along each axis of the
/// mesh, or `at_most` of them picked at random (the same on all ranks). Called by all ranks of the mesh.
void expect_as_on_one_device(const OperatorCase& op, const Mesh& mesh, std::size_t at_most);

}  // namespace lockstep::test
