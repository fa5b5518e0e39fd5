// The callbacks of a run, in the order in which they are called, with names for messages and checkpoints.
#pragma once

#include <lockstep/train/callback.h>

#include <map>
#include <string>
#include <string_view>

namespace lockstep::train {

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
