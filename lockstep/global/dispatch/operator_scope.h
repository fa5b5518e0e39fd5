// Operators on global tensors as steps of their mesh's trace (comm/operator_trace.h): ranks that do not call the same
// ones get an error in the next collective, instead of waiting for each other or computing with the wrong parts.
#pragma once

#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/dispatch/plan.h>
#include <lockstep/global/dispatch/tensor_arguments.h>

#include <string_view>
#include <vector>

namespace lockstep::global {

/// Writes down what the call is on the trace. Views, and numbers taken out of a tensor, are no steps where nothing is
/// sent for them: one rank alone may look at a replicated value, to print it.
void add_to_trace(Plan& plan, const c10::OperatorHandle& op, const OpInfo& info,
                  const std::vector<TensorArgument>& inputs);

/// Takes the step; while alive, collectives of this thread are compared with it.
class OperatorScope {
 public:
  OperatorScope(MeshState& mesh, const Plan& plan)
      : OperatorScope(take(mesh, plan), plan.for_one_rank ? nullptr : mesh.trace(),
                      plan.trace_hash == 0 ? &plan.trace_text : nullptr) {}
  /// A global tensor is brought to other placements; no step where they are what it has.
  OperatorScope(const at::Tensor& tensor, const Placements& to);
  /// `what` is done with a tensor whose parts, the same or not, the ranks bring to `placements`.
  OperatorScope(std::string_view what, MeshState& mesh, const at::Tensor& tensor, const Placements& placements);

  /// All that the step is. What is thrown there is noted as a failure of this rank, for the others, who get the error
  /// in their next collective (OperatorTrace::fail). Not where the others have it already, because a collective has
  /// thrown it.
  template <typename Work>
  auto run(const MeshState& mesh, const Work& work) const -> decltype(work()) {
    try {
      return work();
    } catch (...) {
      failed(mesh);
      throw;
    }
  }

 private:
  OperatorScope(OperatorTrace* trace, OperatorTrace* fails_on, const std::string* unsaid)
      : scope_(trace), fails_on_(fails_on), unsaid_(unsaid), failures_before_(fails_on ? fails_on->failures() : 0) {}
  explicit OperatorScope(OperatorTrace* trace) : OperatorScope(trace, trace, nullptr) {}

  static OperatorTrace* take(MeshState& mesh, const Plan& plan) {
    if (plan.trace_hash == 0) return nullptr;
    if (OperatorTrace* trace = mesh.trace()) trace->take(plan.trace_hash, plan.trace_text);
    return mesh.trace();
  }

  /// While an exception is handled.
  void failed(const MeshState& mesh) const noexcept;

  OperatorTraceScope scope_;
  OperatorTrace* fails_on_;
  const std::string* unsaid_;  ///< what is no step unless it fails
  std::uint64_t failures_before_;
};

}  // namespace lockstep::global
