#include <lockstep/base/error.h>
#include <lockstep/global/tensor_state.h>
#include <lockstep/plan/trace/refusals.h>

#include <ATen/core/ivalue.h>

namespace lockstep::plan {

void refuse_to_tell_numbers(const global::OpInfo& info) {
  fail(
      ErrorKind::unsupported, "plan",
      "{} takes a number out of a tensor (item(), a condition, printing), but a step is planned with tensors that have "
      "shapes and no numbers; let the step compute without it (torch::where instead of `if`), or do it outside the "
      "step, or use parallel.mode semi_auto, which plans nothing",
      info.shown);
}

void refuse_unknown_shape(const global::OpInfo& info) {
  fail(ErrorKind::unsupported, "plan",
       "{} gives a tensor whose shape cannot be told from the shapes of its inputs, and a step is planned with nothing "
       "else; use an operator that keeps shapes (torch::where instead of a selection by mask), or parallel.mode "
       "semi_auto, which plans nothing",
       info.shown);
}

bool copy_of_ordinary(const global::OpInfo& info, const torch::jit::Stack& arguments, torch::jit::Stack& results) {
  const auto& first = arguments[0].toTensor();
  if (info.name == "_to_copy") {  // self, dtype, layout, device, ...
    const bool leaves = arguments[3].isDevice() && arguments[3].toDevice().type() != global::kDeviceType;
    if (leaves && global::is_global(first)) refuse_to_tell_numbers(info);
    return false;
  }
  const bool into = global::is_global(first);
  if (into == global::is_global(arguments[1].toTensor())) return false;
  if (!into) refuse_to_tell_numbers(info);
  results.push_back(arguments[0]);
  return true;
}

}  // namespace lockstep::plan
