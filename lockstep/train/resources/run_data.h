// The data of a run on one rank: the data set that data.name chooses, with its options and transforms; the rank's
// shares of the splits; and batches on the device, prefetched by one: while the device computes a step, a thread takes
// the next batch and moves it to the device.
#pragma once

#include <lockstep/data/pictures.h>
#include <lockstep/data/sampler.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/samples/transforms.h>
#include <lockstep/train/parts.h>
#include <lockstep/train/program.h>
#include <lockstep/train/resolved_run.h>

#include <c10/core/Device.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::train {

/// Error(config) for an unknown data.name.
const DataPart& data_part(const ResolvedRun& config);

/// data.train_transforms for training; for evaluation data.eval_transforms, or those of training without the random
/// ones. `stored`: as in read_transforms(). Reads no data. Error(config) with the place in the file.
samples::TransformList transforms_of(const ResolvedRun& run, data::Split split,
                                     const std::optional<data::PictureShape>& stored = {});

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

/// One split: all samples, and this rank's share of them.
struct RankData {
  std::shared_ptr<const samples::Dataset> dataset;
  data::ShardedSampler sampler;
  data::LoaderOptions loading;
  std::vector<std::string>
      reports{};  ///< for users: items of files that were left out, or that were read in an unexpected way

  /// The batches, on the CUDA device (copied while the previous one is used), else on the CPU.
  std::unique_ptr<samples::Batches> batches(const c10::Device& device) const;

  /// Makes the first batch, if this rank has one, and discards it. Errors as those of the batches.
  void try_first_batch() const;
};

/// Shuffled and augmented as configured. Error(data), Error(io) from the files; Error(config) when no training data
/// would be left.
RankData load_train_data(const ResolvedRun& config, const Program& program, int rank, int world_size);

/// The test split in its own order, every sample on exactly one rank; nullopt when the program has none. Errors as
/// above.
std::optional<RankData> load_eval_data(const ResolvedRun& config, const Program& program, int rank, int world_size);

}  // namespace lockstep::train
