// Pending operations of MPI, among them receives; waits with a deadline, which MPI's own waits lack; and the datatypes
// of the data.
#pragma once

#include <lockstep/comm/backend.h>
#include <lockstep/comm/mpi/runtime.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace lockstep::detail::mpi {

/// An operation that advances whenever this process calls MPI for any reason: other ranks may wait for this rank's part
/// in it while it waits for another operation.
class UnderWay {
 public:
  virtual ~UnderWay() = default;
  bool done() const { return done_; }
  /// After completion: throws the error, if any.
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }
  /// The approximate number of bytes that it moves.
  virtual std::int64_t bytes() const = 0;

 protected:
  /// Advances as far as possible without waiting; true once it is complete. One thread at a time.
  virtual bool move() = 0;

 private:
  friend bool advance_all();
  bool advance();

  std::atomic<bool> done_{false};
  std::exception_ptr error_;
};

/// Registers `operation`, which then advances until it is complete. Returns its state. `look_around` is called about
/// every 50 ms while waiting and may throw.
Backend::Pending start(std::shared_ptr<UnderWay> operation, std::function<void()> look_around);

/// Advances all operations of this process as far as possible, unless another thread is doing so. Returns whether an
/// operation completed.
bool advance_all();
/// Whether any operation is pending.
bool any_under_way();

/// Calls `step` until it returns true: without pauses for about the time that moving `bytes` may take, then with pauses
/// that grow to 0.2 ms. (MPI moves data only while it is called, so pauses would slow a transfer.) `look_around` is
/// called about every 50 ms and may throw. False when `timeout` passed. All operations advance meanwhile.
bool poll(const std::function<bool()>& step, std::int64_t bytes, std::chrono::milliseconds timeout,
          const std::function<void()>& look_around = nullptr);

/// Pending requests with the tensors and the communicator that they use. MPI cannot cancel a collective, so if this
/// object is destroyed before they are complete, all of this is kept until the process ends. (By the standard, a
/// communicator may be freed while operations are pending, but Open MPI's collectives continue to use it.)
class Requests : public UnderWay {
 public:
  /// No communicator for operations on MPI's own communicator, which is never freed. `memory`: the owner of other
  /// memory that is read and written.
  explicit Requests(std::vector<at::Tensor> tensors, std::shared_ptr<const Communicator> communicator = nullptr,
                    std::shared_ptr<const void> memory = nullptr)
      : used_(std::make_unique<Used>(Used{std::move(tensors), std::move(communicator), std::move(memory)})) {}
  ~Requests() override;
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  /// A request that MPI fills in; the pointer is valid until the next call.
  MPI_Request* add();

  /// Advances the requests; true once all are complete. Not for requests that were passed to `start`.
  bool complete();

  /// The size of all tensors; some may be undefined, such as gather's output on ranks other than root.
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

/// A block of bytes as "count times type". For more than the 2^31 - 1 that MPI can count, it is one element of a
/// separate type.
class RequestBlock {
 public:
  explicit RequestBlock(std::int64_t bytes);
  ~RequestBlock();
  RequestBlock(const RequestBlock&) = delete;
  RequestBlock& operator=(const RequestBlock&) = delete;

  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  int count_;
  MPI_Datatype type_ = MPI_BYTE;
};

/// Receives of one group. The n-th receive takes the n-th message that was sent with its tag, whatever the order of the
/// waits.
class Inbox {
 public:
  /// `bytes` is the whole tensor; a message of another length is Error(mismatch).
  Backend::Pending receive(MPI_Comm comm, const at::Tensor& bytes, int source, int tag,
                           std::function<void()> look_around);

 private:
  class Receive;
  std::map<std::pair<int, int>, std::shared_ptr<Receive>> last_;  ///< by source and tag
};

}  // namespace lockstep::detail::mpi
