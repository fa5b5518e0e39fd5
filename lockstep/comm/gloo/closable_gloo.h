// ProcessGroupGloo with the few things its public face lacks.
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

  /// For operations from now on; the constructor's was for meeting.
  void set_timeout(std::chrono::milliseconds timeout);

  /// Every rank's `text`, in rank order, on the calling thread: a thread's wake-up cheaper than an allgather of c10d.
  std::vector<std::string> exchange(const std::string& text);

  /// For what is sent without c10d: the connections to all ranks, and a slot on them for messages of one operation that
  /// no other uses. Ranks call it in one order.
  struct Line {
    std::shared_ptr<::gloo::Context> context;
    std::uint64_t slot = 0;
  };
  Line line();

  /// Closes all connections: what is under way fails at once, here and on the ranks that wait for this one. May be
  /// called from any thread.
  void close() noexcept;

 private:
  std::atomic<bool> closed_{false};
};

}  // namespace lockstep::detail::gloo
