// ProcessGroupGloo with the few functions that its public interface lacks.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::detail::gloo {

class ClosableGloo : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;
  ~ClosableGloo() override;

  /// Sets the timeout of later operations; the constructor's was for the rendezvous.
  void set_timeout(std::chrono::milliseconds timeout);

  /// Every rank's `text`, in rank order, on the calling thread: a thread's wake-up cheaper than an allgather of c10d.
  std::vector<std::string> exchange(const std::string& text);

  /// For messages that are sent without c10d: the connections to all ranks, and a slot on them that only one operation
  /// uses. Ranks call it in the same order.
  struct Line {
    std::shared_ptr<::gloo::Context> context;
    std::uint64_t slot = 0;
  };
  Line line();

  /// Closes all connections: pending operations fail at once, here and on the ranks that wait for this one. May be
  /// called from any thread.
  void close() noexcept;

 private:
  std::atomic<bool> closed_{false};
};

}  // namespace lockstep::detail::gloo
