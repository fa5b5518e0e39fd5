// The batches of a run on a device, prefetched by one: while the device computes a step, a thread takes the next batch
// and moves it to the device.
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

/// The batches of `source` after `move`, in the same order and with the same errors. One consumer thread.
class DeviceFeed final : public samples::Batches {
 public:
  /// Starts to move a batch, on the feed's thread. The consumer calls the returned function before it uses the batch.
  using Arrived = std::function<void()>;
  using Move = std::function<Arrived(samples::Batch&)>;

  DeviceFeed(std::unique_ptr<samples::Batches> source, Move move);
  ~DeviceFeed() override;

  void start(std::int64_t epoch, std::int64_t step) override;
  std::optional<samples::Batch> next() override;
  /// The position of the batches that `next` has returned.
  std::int64_t left_out() const override { return left_out_; }

 private:
  /// The result of one call to `source`.
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
  bool ended_ = false;  ///< the thread must end, or there are no more batches
  std::thread thread_;
};

/// Moves the tensors of batches to a CUDA device through pinned memory, on its own stream.
DeviceFeed::Move move_to(const c10::Device& device);

}  // namespace lockstep::train
