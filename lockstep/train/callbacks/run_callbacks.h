// The callbacks of a run: those of the program and of callbacks.use, in the order in which they are called, with names
// for messages and checkpoints.
#pragma once

#include <lockstep/train/callback.h>
#include <lockstep/train/parts.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::train {

/// The part of a callback whose constructor takes these options.
template <typename Made, typename Options>
CallbackPart callback_part(std::string name, std::string doc, Options defaults) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .options = PartOptions::of(std::move(defaults)),
          .make = [](const PartOptions& options) { return std::make_unique<Made>(options.as<Options>()); }};
}

/// The callbacks of the program, which are `of_program`, and those that callbacks.use names. Error(config) with the
/// place in the file for unknown names and options, an item that is given twice, the errors of Callback::check, and two
/// callbacks, or a callback and the run, that write to the same path (Callback::own_paths).
Callbacks make_used_callbacks(const ResolvedRun& config, Callbacks of_program = {});

class CallbackPoints {
 public:
  explicit CallbackPoints(Callbacks callbacks);

  /// Calls this function of each callback. An exception is replaced by one that names callback and point. An Error
  /// keeps its kind; an Error about lost ranks is not changed.
  template <typename... Parameters, typename... Arguments>
  void call(std::string_view point, void (Callback::*function)(Parameters...), Arguments&... arguments) const {
    for (const auto& each : callbacks_) {
      try {
        (each.callback.get()->*function)(arguments...);
      } catch (...) {
        rethrow(each.name, point);
      }
    }
  }

  /// The states of all: tensors as "<callback>.<tensor>".
  std::map<std::string, std::string, std::less<>> texts() const;
  NamedTensors tensors() const;
  /// Entries without a callback of that name are ignored.
  void restore(const std::map<std::string, std::string, std::less<>>& texts, const NamedTensors& tensors) const;

 private:
  struct Named {
    std::string name;
    std::unique_ptr<Callback> callback;
  };
  static CallbackState state_of(const Named& each);
  [[noreturn]] static void rethrow(const std::string& name, std::string_view point);

  std::vector<Named> callbacks_;
};

}  // namespace lockstep::train
