// Parts of a plugin whose exceptions say which plugin and which part they come from.
#pragma once

#include <lockstep/train/parts.h>

#include <string>
#include <utility>

namespace lockstep::train {

/// Throws the exception that is handled again, with `who` ("libmine.so, model net") before its message: an Error of the
/// same kind, or std::runtime_error. What ranks tell each other (timeout, peer_lost, mismatch) is not a mistake of a
/// part, and goes on as it is. For catch blocks.
[[noreturn]] void rethrow_with(const std::string& who);

/// What `call` returns; exceptions as by rethrow_with().
template <typename Call>
auto call_from(const std::string& who, const Call& call) {
  try {
    return call();
  } catch (...) {
    rethrow_with(who);
  }
}

/// The same function, whose exceptions are those of `who`; an empty one stays empty.
template <typename Result, typename... Arguments>
std::function<Result(Arguments...)> with_error_origin(std::function<Result(Arguments...)> function,
                                                      const std::string& who) {
  if (!function) return function;
  return [function = std::move(function), who](Arguments... arguments) -> Result {
    return call_from(who, [&] { return function(std::forward<Arguments>(arguments)...); });
  };
}

/// The same object for whoever calls it, but for its exceptions. nullptr stays nullptr.
std::shared_ptr<Task> with_error_origin(std::shared_ptr<Task> task, const std::string& who);
std::shared_ptr<const samples::Dataset> with_error_origin(std::shared_ptr<const samples::Dataset> dataset,
                                                          const std::string& who);
std::shared_ptr<Metric> with_error_origin(std::shared_ptr<Metric> metric, const std::string& who);

/// The parts with all that they make. `library` is the name of the plugin's file.
template <typename Part>
Part part_with_error_origin(Part part, const std::string& /*library*/) {
  return part;  // a kind that has no overload below
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

}  // namespace lockstep::train
