// Operations on a device's tensors through the host's memory, in three stages: copy there, the same operation of a
// backend for the CPU, copy back. A thread takes them from stage to stage while the program goes on. Without a word of
// CUDA.
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

/// A tensor on the device, and the memory of the host that stands for it.
struct Pair {
  at::Tensor on_device;
  at::Tensor on_host;
};

struct Plan {
  std::vector<Pair> before;                 ///< copied to the host
  std::function<Backend::Pending()> start;  ///< then this, on the thread of the stages
  std::vector<Pair> after;                  ///< copied to the device at last
};

/// Operations begin on the host in the order of the calls, and end in any. Their errors come with the wait for them.
class Stages {
 public:
  /// `timeout`: how long the destructor waits for what others have to do.
  Stages(c10::Device device, std::chrono::milliseconds timeout);
  /// Takes what has begun to its end, as the other ranks count on it.
  ~Stages();
  Stages(const Stages&) = delete;
  Stages& operator=(const Stages&) = delete;

  /// Memory of the host for a tensor like this one: of a kind that the device reads and writes by itself, if there is.
  at::Tensor on_host(const at::Tensor& tensor) const;

  /// Returns at once. The state's wait blocks until the host has its part done, and orders the current stream. One
  /// thread at a time.
  Backend::Pending run(Plan plan);

  /// What has not ended fails soon. Any thread.
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
  Operations called_;  ///< that the thread has not taken yet
  bool aborted_ = false;
  bool stopped_ = false;
  std::chrono::steady_clock::time_point next_check_{};  ///< of the thread alone
  std::thread thread_;
};

}  // namespace lockstep::detail::staged
