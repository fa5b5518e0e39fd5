// One operation of a process group, as the Work that torch.distributed hands to programs.
#pragma once

#include <apps/python/callback_threads.h>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <sys/types.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::python {

/// What a program may ask about an operation.
struct CallFacts {
  c10d::OpType type = c10d::OpType::UNKNOWN;
  const char* title = nullptr;        ///< of the profiler, for example "lockstep:all_reduce"
  std::vector<at::Tensor> inputs{};   ///< only for the profiler where `outputs` are written in place
  std::vector<at::Tensor> outputs{};  ///< the tensors that the operation writes
};

/// Thread-safe.
class TorchWork : public c10d::Work {
 public:
  TorchWork(int rank, std::uint64_t number, const CallFacts& facts, std::shared_ptr<CallbackThreads> threads);

  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override;
  int sourceRank() const override;
  std::uint64_t getSequencenumber() const override { return number_; }
  void abort() override;

  /// The operation is complete, or has failed. Called once, by a thread that holds no lock.
  void complete(std::exception_ptr error = nullptr);
  /// Of a received message; called before complete().
  void set_source(int rank) { source_ = rank; }

 private:
  void settle(c10::ivalue::Future& future, const std::exception_ptr& error) const;

  const std::uint64_t number_;
  const std::string title_;
  const pid_t process_ = ::getpid();
  const std::vector<at::Tensor> outputs_;
  const std::shared_ptr<CallbackThreads> threads_;
  int source_ = -1;
  c10::intrusive_ptr<c10::ivalue::Future> future_;  ///< none until somebody asks for it
  bool future_waits_ = false;                       ///< complete() has to complete the future
};

/// Several works as one: complete when all are, and failed when one is. Thread-safe.
class SeveralWorks : public c10d::Work {
 public:
  SeveralWorks(int rank, std::vector<c10::intrusive_ptr<TorchWork>> works)
      : c10d::Work(rank, c10d::OpType::COALESCED), works_(std::move(works)) {}

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  void abort() override;

 private:
  const std::vector<c10::intrusive_ptr<TorchWork>> works_;
};

}  // namespace lockstep::python
