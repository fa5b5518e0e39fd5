// Operations of MPI under way, and waits with a deadline: MPI's own waits have none.
#pragma once

#include <lockstep/comm/backend.h>
#include <lockstep/comm/mpi/runtime.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace lockstep::detail::mpi {

/// An operation that goes on whenever this process calls MPI, whatever for: other ranks may wait for this rank's part
/// in it while it waits for another.
class UnderWay {
 public:
  virtual ~UnderWay() = default;
  bool done() const { return done_; }
  /// After it is done: what went wrong, if anything.
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }
  /// About how much it moves.
  virtual std::int64_t bytes() const = 0;

 protected:
  /// Goes on as far as it can without waiting; true once it is complete. One thread at a time.
  virtual bool move() = 0;

 private:
  friend bool advance_all();
  bool advance();

  std::atomic<bool> done_{false};
  std::exception_ptr error_;
};

/// From now on `operation` goes on, until it is done. Returns its state. `look_around` is called about every 50 ms of
/// waiting and may throw.
Backend::Pending start(std::shared_ptr<UnderWay> operation, std::function<void()> look_around);

/// Advances all operations of this process as far as they go, unless another thread is at it. Whether any was
/// completed.
bool advance_all();
/// Whether there are any.
bool any_under_way();

/// Calls `step` until it returns true: without pauses for as long as moving `bytes` may well take, then with pauses
/// that grow to 0.2 ms. (MPI moves data only while it is called, so pauses would stretch a transfer.) `look_around` is
/// called about every 50 ms and may throw. False when `timeout` passed. All operations go on meanwhile.
bool poll(const std::function<bool()>& step, std::int64_t bytes, std::chrono::milliseconds timeout,
          const std::function<void()>& look_around = nullptr);

/// Pending requests with the tensors and the communicator they use. MPI cannot cancel a collective, so when this
/// object is destroyed before they are complete, all that is kept until the process ends. (By the standard, a
/// communicator may be freed while operations are pending, but Open MPI's collectives go on using it.)
class Requests : public UnderWay {
 public:
  /// Without a communicator for operations on MPI's own, which is never freed. `memory`: whatever owns what else is
  /// read and written.
  explicit Requests(std::vector<at::Tensor> tensors, std::shared_ptr<const Communicator> communicator = nullptr,
                    std::shared_ptr<const void> memory = nullptr)
      : used_(std::make_unique<Used>(Used{std::move(tensors), std::move(communicator), std::move(memory)})) {}
  ~Requests() override;
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  /// For MPI to fill in; stays in place until the next call.
  MPI_Request* add();

  /// Makes progress; true once all are complete. Not for requests that were given to `start`.
  bool complete();

  /// Of all tensors; some may be undefined, such as gather's output on other ranks than root.
  std::int64_t bytes() const override;

 protected:
  bool move() override { return complete(); }

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
