// Reductions over Gloo's connections, in the order of the sum tree. Gloo's own order depends on its algorithm.
#pragma once

#include <lockstep/comm/backend.h>
#include <lockstep/comm/gloo/closable_gloo.h>
#include <lockstep/comm/reduction/network_reduction.h>

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::detail::gloo {

/// Has two threads, from the first reduction on: as many as c10d has for the other collectives.
class Reducer {
 public:
  explicit Reducer(ClosableGloo& group) : group_(group) {}
  /// Close the group before, unless all reductions are complete.
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// Whether a reduction is still pending.
  bool busy();

  /// `kept` is held until the reduction is complete: the memory of `call`, and the targets of copied results. Ranks
  /// call it in the same order.
  Backend::Pending start(NetworkCall call, std::vector<at::Tensor> kept);

 private:
  void start_threads();
  void work();

  ClosableGloo& group_;
  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<std::packaged_task<void()>> waiting_;
  std::vector<std::shared_future<void>> under_way_;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::detail::gloo
