// Operators on global tensors as steps of their mesh's trace (comm/operator_trace.h): if ranks call different
// operators, they get an error in the next collective, instead of waiting for each other or computing with wrong parts.
#pragma once

#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/dispatch/plan.h>

#include <string_view>
#include <vector>

namespace lockstep::global {

/// Sets the plan's trace entry. Views, and reads of a tensor's values, are not on the trace if they send nothing: a
/// single rank may read a replicated value, to print it.
void add_to_trace(Plan& plan, const c10::OperatorHandle& op, const OpInfo& info,
                  const std::vector<TensorArgument>& inputs);

/// Adds a step to the trace; while it exists, collectives of this thread belong to the step.
class OperatorScope {
 public:
  OperatorScope(MeshState& mesh, const Plan& plan)
      : OperatorScope(take(mesh, plan), plan.for_one_rank ? nullptr : mesh.trace(),
                      plan.trace_hash == 0 ? &plan.trace_text : nullptr) {}
  /// The redistribution of a global tensor; no step if it has these placements already.
  OperatorScope(const at::Tensor& tensor, const Placements& to);
  /// The operation `what` on the ranks' tensors, equal or not, which get `placements`.
  OperatorScope(std::string_view what, MeshState& mesh, const at::Tensor& tensor, const Placements& placements);

  /// Runs the step. An exception is recorded as a failure of this rank, and the other ranks get the error in their next
  /// collective (OperatorTrace::fail). Not recorded if a collective has thrown it, because the other ranks have that
  /// error already.
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

  /// Records the failure. Called while an exception is handled.
  void failed(const MeshState& mesh) const noexcept;

  OperatorTraceScope scope_;
  OperatorTrace* fails_on_;
  const std::string* unsaid_;  ///< the text of a call that is on the trace only if it fails
  std::uint64_t failures_before_;
};

}  // namespace lockstep::global
