// Parts of a plugin whose exceptions name the plugin and the part.
#pragma once

#include <lockstep/train/parts.h>

#include <string>
#include <utility>

namespace lockstep::train {

/// Rethrows the current exception with `who` ("libmine.so, model net") before its message: an Error of the same kind,
/// a c10::Error, or std::runtime_error. Errors between ranks (timeout, peer_lost, mismatch) are not mistakes of a part,
/// and are rethrown unchanged. For catch blocks.
[[noreturn]] void rethrow_with(const std::string& who);

/// Returns the result of `call`; exceptions as by rethrow_with().
template <typename Call>
auto call_from(const std::string& who, const Call& call) {
  try {
    return call();
  } catch (...) {
    rethrow_with(who);
  }
}

/// The same function, whose exceptions name `who`; an empty function stays empty.
template <typename Result, typename... Arguments>
std::function<Result(Arguments...)> with_error_origin(std::function<Result(Arguments...)> function,
                                                      const std::string& who) {
  if (!function) return function;
  return [function = std::move(function), who](Arguments... arguments) -> Result {
    return call_from(who, [&] { return function(std::forward<Arguments>(arguments)...); });
  };
}

/// An object with the same behaviour, except for its exceptions. nullptr stays nullptr.
std::shared_ptr<Task> with_error_origin(std::shared_ptr<Task> task, const std::string& who);
std::shared_ptr<const samples::Dataset> with_error_origin(std::shared_ptr<const samples::Dataset> dataset,
                                                          const std::string& who);
std::shared_ptr<Metric> with_error_origin(std::shared_ptr<Metric> metric, const std::string& who);
std::unique_ptr<Callback> with_error_origin(std::unique_ptr<Callback> callback, const std::string& who);

/// The parts, and all objects that they make. `library` is the name of the plugin's file.
template <typename Part>
Part part_with_error_origin(Part part, const std::string& /*library*/) {
  return part;  // a kind without an overload below
}
ModelPart part_with_error_origin(ModelPart part, const std::string& library);
DataPart part_with_error_origin(DataPart part, const std::string& library);
TaskPart part_with_error_origin(TaskPart part, const std::string& library);
LossPart part_with_error_origin(LossPart part, const std::string& library);
OptimizerPart part_with_error_origin(OptimizerPart part, const std::string& library);
SchedulePart part_with_error_origin(SchedulePart part, const std::string& library);
MetricPart part_with_error_origin(MetricPart part, const std::string& library);
CallbackPart part_with_error_origin(CallbackPart part, const std::string& library);
WrapperPart part_with_error_origin(WrapperPart part, const std::string& library);
samples::TransformPart part_with_error_origin(samples::TransformPart part, const std::string& library);

/// The parts of a program: those that Lockstep does not ship, with the program in place of a plugin's file.
Parts with_error_origin_of_program(Parts parts, const std::string& program);

}  // namespace lockstep::train
