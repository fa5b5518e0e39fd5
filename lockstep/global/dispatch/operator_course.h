// Operators on global tensors as steps of their mesh's course (comm/course.h): ranks that do not call the same ones get
// an error in the next collective, instead of waiting for each other or computing with the wrong parts.
#pragma once

#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/dispatch/plan.h>
#include <lockstep/global/dispatch/tensor_arguments.h>

#include <string_view>
#include <vector>

namespace lockstep::global {

/// Writes down what the call is on the course. Views, and numbers taken out of a tensor, are no steps where nothing is
/// sent for them: one rank alone may look at a replicated value, to print it.
void put_on_course(Plan& plan, const c10::OperatorHandle& op, const OpInfo& info,
                   const std::vector<TensorArgument>& inputs);

/// Takes the step; while alive, collectives of this thread are compared with it.
class OperatorScope {
 public:
  OperatorScope(MeshState& mesh, const Plan& plan)
      : OperatorScope(plan.course_hash != 0 ? take(mesh, plan) : nullptr) {}
  /// A global tensor is brought to other placements; no step where they are what it has.
  OperatorScope(const at::Tensor& tensor, const Placements& to);
  /// `what` is done with a tensor whose parts, the same or not, the ranks bring to `placements`.
  OperatorScope(std::string_view what, MeshState& mesh, const at::Tensor& tensor, const Placements& placements);

  /// While an exception is handled that the operator has thrown: notes that it failed on this rank, for the others, who
  /// get the error in their next collective (Course::fail). Not where the others have it already, because a collective
  /// has thrown it.
  void failed(const MeshState& mesh) const noexcept;

 private:
  explicit OperatorScope(Course* course)
      : scope_(course), course_(course), failures_before_(course ? course->failures() : 0) {}

  static Course* take(MeshState& mesh, const Plan& plan) {
    if (Course* course = mesh.course()) course->take(plan.course_hash, plan.course_text);
    return mesh.course();
  }

  CourseScope scope_;
  Course* course_;
  std::uint64_t failures_before_;
};

}  // namespace lockstep::global
