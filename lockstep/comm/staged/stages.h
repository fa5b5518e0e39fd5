// Operations on a device's tensors through the host's memory, in three stages: copy to the host, the same operation of
// a backend for the CPU, copy back. A thread moves them from stage to stage while the program continues. Uses nothing
// of CUDA itself.
#pragma once

#include <lockstep/comm/backend.h>
#include <lockstep/comm/device/lane.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::detail::staged {

/// A tensor on the device, and the host memory that represents it.
struct Pair {
  at::Tensor on_device;
  at::Tensor on_host;
};

struct Plan {
  std::vector<Pair> before;                 ///< copied to the host
  std::function<Backend::Pending()> start;  ///< then this, on the thread of the stages
  std::vector<Pair> after;                  ///< finally copied to the device
};

/// Operations start on the host in the order of the calls, and end in any order. Waits for them throw their errors.
class Stages {
 public:
  /// `timeout`: how long the destructor waits for the other ranks.
  Stages(c10::Device device, std::chrono::milliseconds timeout);
  /// Completes the operations that have begun, because the other ranks depend on them.
  ~Stages();
  Stages(const Stages&) = delete;
  Stages& operator=(const Stages&) = delete;

  /// Host memory for a tensor like this one: if possible, of a kind that the device reads and writes directly.
  at::Tensor on_host(const at::Tensor& tensor) const;

  /// Returns at once. The state's wait blocks until the host has completed its part, and orders the current stream. One
  /// thread at a time.
  Backend::Pending run(Plan plan);

  /// Operations that have not ended fail soon. Any thread.
  void abort() noexcept;

 private:
  class Operation;
  using Operations = std::list<std::shared_ptr<Operation>>;

  void serve();
  bool go_on(Operations& copying, Operations& running);
  void check(Operations& running);
  std::shared_ptr<DeviceOperation> copy(const std::vector<Pair>& pairs, bool to_device);

  const c10::Device device_;
  const std::chrono::milliseconds timeout_;
  std::mutex lane_mutex_;
  Lane lane_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Operations called_;  ///< operations that the thread has not taken yet
  bool aborted_ = false;
  bool stopped_ = false;
  std::chrono::steady_clock::time_point next_check_{};  ///< used only by the thread
  std::thread thread_;
};

}  // namespace lockstep::detail::staged
