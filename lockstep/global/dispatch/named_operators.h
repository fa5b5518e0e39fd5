// Operators by the names of their modules, while a model runs: the operator of a call, and the strategy that the user
// has given it.
#pragma once

#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/operator_strategy.h>

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace lockstep::global {

/// The modules inside `module` that only contain other modules and call no operator: lists and sequences.
std::set<std::string, std::less<>> containers_of(const torch::nn::Module& module);

/// Follows the modules of tensors from operator to operator, in the forward pass of training only. It uses
/// TensorState::traced: the module of a tensor and the number of the operator that made it. Calls may be made on
/// several threads (backward may run on a thread of autograd), but not at the same time.
class NamedOperators {
 public:
  NamedOperators(OperatorStrategies strategies, std::set<std::string, std::less<>> containers);

  /// Makes a tensor a parameter or buffer of a module.
  void name(const at::Tensor& tensor, const std::string& module);

  struct NamedCall {
    std::shared_ptr<const OperatorStrategy> strategy = nullptr;
    std::int64_t number = 0;               ///< of the strategy, from 1; 0: none. Part of the key of the call's plan
    std::optional<std::size_t> results{};  ///< the mark of the results; nullopt: not in forward
  };
  NamedCall called(const OpInfo& info, const torch::jit::Stack& arguments);
  static void made(const NamedCall& call, c10::ArrayRef<c10::IValue> results);

 private:
  std::size_t number_of(const std::string& module);

  OperatorStrategies strategies_;
  std::set<std::string, std::less<>> containers_;
  std::vector<std::string> modules_;
  std::map<std::string, std::size_t, std::less<>> numbers_;
  std::map<std::pair<std::size_t, std::string>, std::int64_t> found_;  ///< strategies by module and operator
  std::string last_module_;
  std::uint64_t operators_ = 0;
};

/// Gives the operators of a distributed module these strategies, while it runs on `mesh`.
void set_strategies(const torch::nn::Module& module, const Mesh& mesh, OperatorStrategies strategies);

/// The named operators of the mesh of the first global tensor among the arguments; nullptr: the mesh has no named
/// operators.
NamedOperators* names_of(c10::ArrayRef<c10::IValue> arguments);

}  // namespace lockstep::global
