// Waits for MPI with a deadline: MPI's own waits have none.
#pragma once

#include <lockstep/comm/backend.h>
#include <lockstep/comm/mpi/runtime.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace lockstep::detail::mpi {

/// Calls `step` until it returns true: without pauses for as long as moving `bytes` may well take, then with pauses
/// that grow to 0.2 ms. (MPI moves data only while it is called, so pauses would stretch a transfer.) `look_around` is
/// called about every 50 ms and may throw. False when `timeout` passed. Reductions go on meanwhile (reducer.h).
bool poll(const std::function<bool()>& step, std::int64_t bytes, std::chrono::milliseconds timeout,
          const std::function<void()>& look_around = nullptr);

/// Pending operations with the tensors and the communicator they use. MPI cannot cancel a collective, so when this
/// object is destroyed before they are complete, all that is kept until the process ends. (By the standard, a
/// communicator may be freed while operations are pending, but Open MPI's collectives go on using it.)
class Requests {
 public:
  /// Without a communicator for operations on MPI's own, which is never freed. `memory`: whatever owns what else is
  /// read and written.
  explicit Requests(std::vector<at::Tensor> tensors, std::shared_ptr<const Communicator> communicator = nullptr,
                    std::shared_ptr<const void> memory = nullptr)
      : used_(std::make_unique<Used>(Used{std::move(tensors), std::move(communicator), std::move(memory)})) {}
  ~Requests();
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  /// For MPI to fill in; stays in place until the next call.
  MPI_Request* add();

  /// Makes progress; true once all are complete.
  bool complete();

  /// Of all tensors; some may be undefined, such as gather's output on other ranks than root.
  std::int64_t bytes() const;

 private:
  struct Used {
    std::vector<at::Tensor> tensors;
    std::shared_ptr<const Communicator> communicator;
    std::shared_ptr<const void> memory;
  };
  std::vector<MPI_Request> requests_;
  std::unique_ptr<Used> used_;
};

}  // namespace lockstep::detail::mpi
