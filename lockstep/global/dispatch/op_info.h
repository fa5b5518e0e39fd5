// Operators and the tensors of their calls: what the schema of an operator says, the arguments of a call as a flat list
// of tensors, and the shapes of its results, found without computing them.
#pragma once

#include <lockstep/global/rules/signature.h>
#include <lockstep/global/tensor_state.h>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::global {

struct OpInfo {
  std::string name;      ///< base name: "add" for aten::add.Tensor, aten::add_.Tensor and aten::add.out
  std::string overload;  ///< "Tensor"
  std::string shown;     ///< "aten::add.Tensor", for messages

  std::optional<std::size_t> written_self;                    ///< the argument that an in-place variant writes to
  std::vector<bool> is_out;                                   ///< by argument: an `out` tensor, not read
  std::vector<std::size_t> written_beside;                    ///< arguments that are read and written, but not returned
  std::vector<std::optional<std::size_t>> returned_argument;  ///< by result: the written argument that is returned
  bool reshapes_self = false;                                 ///< in place, but changes the shape only: t_, squeeze_
  bool is_view = false;                                       ///< a result shares memory with an argument
  bool makes_unwritten = false;                               ///< empty() and similar operators
  bool has_out = false;                                       ///< some argument is an `out` tensor
  bool loses_writes =
      false;               ///< an `out` that is not returned, or a list of such: the written values would then be lost
  bool may_cross = false;  ///< copy_, _to_copy: may mix a global and an ordinary tensor
  std::size_t arguments = 0;
  std::vector<std::size_t> lengths;  ///< arguments that are lengths of sequences, which change with every batch

  /// The variant that returns new tensors instead of writing to `out` tensors. It is called instead, because libtorch
  /// 1.13 returns dangling references when an operator with several `out` tensors is called with its arguments on a
  /// stack.
  std::optional<c10::OperatorHandle> functional;

  bool writes_beside(std::size_t argument) const {
    return std::find(written_beside.begin(), written_beside.end(), argument) != written_beside.end();
  }
};

/// Thread-safe; the reference stays valid.
const OpInfo& op_info(const c10::OperatorHandle& op);

TensorInfo tensor_info(const at::Tensor& tensor);
TensorInfo tensor_info(const LogicalShape& shape);
TensorInfo tensor_info(std::vector<std::int64_t> sizes, c10::ScalarType dtype);

/// The call without outputs, which the caller determines.
OpCall read_call(const c10::OperatorHandle& op, const OpInfo& info, const torch::jit::Stack& arguments);

struct TensorArgument {
  at::Tensor tensor;         ///< undefined for an optional one that was not given
  std::size_t position = 0;  ///< index of the argument that is the tensor or the list with it
};

/// Inputs, in the order of the arguments; the tensor of an in-place variant is one of them, `out` tensors are not.
std::vector<TensorArgument> input_tensors(const OpInfo& info, const torch::jit::Stack& arguments);

/// The arguments with each input tensor replaced by the next of `locals`, which has one for each of input_tensors().
void replace_inputs(const OpInfo& info, torch::jit::Stack& arguments, const std::vector<at::Tensor>& locals);

/// Converts the arguments of an `out` variant to those of the variant that returns new tensors. If there is none,
/// replaces the `out` tensors by empty ones on `device`. Returns the operator to call.
const c10::OperatorHandle& without_out(const c10::OperatorHandle& op, const OpInfo& info, torch::jit::Stack& arguments,
                                       c10::Device device);

struct ResultShapes {
  /// The shapes of the returned tensors, lists flattened; an undefined tensor has no sizes. nullopt when they are
  /// unknown or depend on values of tensors.
  std::optional<std::vector<LogicalShape>> known;
  bool refused = false;  ///< libtorch rejects these arguments, or the rule does not support them; `known` is empty
};

/// The shapes from libtorch's meta kernel or, if there is none, from the rule.
ResultShapes result_shapes(const c10::OperatorHandle& op, const OpInfo& info, const torch::jit::Stack& arguments,
                           const OpCall& call, const Rule* rule);

/// The logical shape of a tensor.
LogicalShape shape_of(const at::Tensor& tensor);

/// Replaces the device of global tensors by `device` in the arguments.
void replace_device(torch::jit::Stack& arguments, c10::Device device);

}  // namespace lockstep::global
