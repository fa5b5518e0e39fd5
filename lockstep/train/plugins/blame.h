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
auto blaming(const std::string& who, const Call& call) {
  try {
    return call();
  } catch (...) {
    rethrow_with(who);
  }
}

/// The same function, whose exceptions are those of `who`; an empty one stays empty.
template <typename Result, typename... Arguments>
std::function<Result(Arguments...)> blamed(std::function<Result(Arguments...)> function, const std::string& who) {
  if (!function) return function;
  return [function = std::move(function), who](Arguments... arguments) -> Result {
    return blaming(who, [&] { return function(std::forward<Arguments>(arguments)...); });
  };
}

/// The same object for whoever calls it, but for its exceptions. nullptr stays nullptr.
std::shared_ptr<Task> blamed(std::shared_ptr<Task> task, const std::string& who);
std::shared_ptr<const samples::Dataset> blamed(std::shared_ptr<const samples::Dataset> dataset, const std::string& who);
std::shared_ptr<Metric> blamed(std::shared_ptr<Metric> metric, const std::string& who);

/// The parts with all that they make. `library` is the name of the plugin's file.
template <typename Part>
Part blamed_part(Part part, const std::string& /*library*/) {
  return part;  // a kind that has no overload below
}
ModelPart blamed_part(ModelPart part, const std::string& library);
DataPart blamed_part(DataPart part, const std::string& library);
TaskPart blamed_part(TaskPart part, const std::string& library);
LossPart blamed_part(LossPart part, const std::string& library);
OptimizerPart blamed_part(OptimizerPart part, const std::string& library);
SchedulePart blamed_part(SchedulePart part, const std::string& library);
MetricPart blamed_part(MetricPart part, const std::string& library);
CallbackPart blamed_part(CallbackPart part, const std::string& library);
WrapperPart blamed_part(WrapperPart part, const std::string& library);
samples::TransformPart blamed_part(samples::TransformPart part, const std::string& library);

}  // namespace lockstep::train
