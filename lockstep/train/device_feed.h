// The batches of a run on a device, one ahead: while the device computes a step, a thread takes the next batch and
// moves it there.
#pragma once

#include <lockstep/samples/dataset.h>

#include <c10/core/Device.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace lockstep::train {

/// As the batches of `source`, in their order and with their errors, after `move`. One consumer thread.
class DeviceFeed final : public samples::Batches {
 public:
  /// Begins to move a batch, on the feed's thread. What it returns is called by the consumer before it uses the batch.
  using Arrived = std::function<void()>;
  using Move = std::function<Arrived(samples::Batch&)>;

  DeviceFeed(std::unique_ptr<samples::Batches> source, Move move);
  ~DeviceFeed() override;

  void start(std::int64_t epoch, std::int64_t step) override;
  std::optional<samples::Batch> next() override;
  /// Of the batches that `next` has given.
  std::int64_t left_out() const override { return left_out_; }

 private:
  /// What `source` gave for one call.
  struct Taken {
    std::optional<samples::Batch> batch;
    Arrived arrived;
    std::int64_t left_out = 0;
    std::exception_ptr error;
  };

  Taken take();
  void run();
  void end();

  std::unique_ptr<samples::Batches> source_;
  Move move_;
  std::int64_t left_out_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Taken> ahead_;
  bool ended_ = false;  ///< of the thread: asked to, or nothing comes any more
  std::thread thread_;
};

/// Moves the tensors of batches to a CUDA device through pinned memory, on a stream of its own.
DeviceFeed::Move move_to(const c10::Device& device);

}  // namespace lockstep::train
