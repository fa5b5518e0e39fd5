// Output that only informs people: where it cannot be written, the run goes on without it.
#pragma once

#include <lockstep/train/callback.h>

#include <functional>
#include <string>
#include <utility>

namespace lockstep::train {

/// One kind of such output. Not thread-safe.
class OnlyInforms {
 public:
  /// `what`: its name for people, such as "loss.svg".
  explicit OnlyInforms(std::string what) : what_(std::move(what)) {}

  /// Calls `write`, which makes no collective. What the file system refuses is said once to the run's people, and once
  /// more when it comes to work again; every call tries. Whether it was written. Other exceptions pass.
  bool write(const RunView& run, const std::function<void()>& write);

 private:
  std::string what_;
  bool refused_ = false;
};

}  // namespace lockstep::train
