// The information about a call before it runs: the properties of its operator, derived from the schema once, and its
// arguments in the form that the rules read.
#pragma once

#include <lockstep/global/rules/op_call.h>
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

}  // namespace lockstep::global
