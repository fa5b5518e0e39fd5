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

  /// Sets the timeout of later operations; the timeout given to the constructor was for the rendezvous.
  void set_timeout(std::chrono::milliseconds timeout);

  /// Exchanges texts on the calling thread and returns every rank's `text` in rank order. It is faster than an
  /// allgather of c10d by the wake-up of a thread.
  std::vector<std::string> exchange(const std::string& text);

  /// For messages that are sent without c10d: the connections to all ranks, and a slot that only one operation uses on
  /// them. Ranks call it in the same order.
  struct Line {
    std::shared_ptr<::gloo::Context> context;
    std::uint64_t slot = 0;
  };
  Line line();

  /// Closes all connections: pending operations fail at once, on this rank and on the ranks that wait for it. Any
  /// thread may call it.
  void close() noexcept;

 private:
  std::atomic<bool> closed_{false};
};

}  // namespace lockstep::detail::gloo
