// Output that only informs users: if it cannot be written, the run continues without it.
#pragma once

#include <lockstep/train/callback.h>

#include <functional>
#include <string>
#include <utility>

namespace lockstep::train {

/// One kind of optional output. Not thread-safe.
class OnlyInforms {
 public:
  /// `what`: its name in messages, such as "loss.svg".
  explicit OnlyInforms(std::string what) : what_(std::move(what)) {}

  /// Calls `write`, which makes no collective. Errors of the file system are reported once, and again when a write
  /// succeeds after them; every call tries to write. Returns whether the output was written. Other exceptions
  /// propagate.
  bool write(const RunView& run, const std::function<void()>& write);

 private:
  std::string what_;
  bool refused_ = false;
};

}  // namespace lockstep::train
