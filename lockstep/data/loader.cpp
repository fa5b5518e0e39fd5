// The loader of small pictures: worker threads fill reused batches ahead of the consumer, in the sampler's order.
#include <lockstep/base/error.h>
#include <lockstep/data/loader.h>
#include <lockstep/data/prefetcher.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace lockstep::data {
namespace {

constexpr int kMostWorkers = 1024;
constexpr int kMostPrefetch = 65536;

void check(const Dataset& dataset, const Pipeline& pipeline, const ShardedSampler& sampler,
           const LoaderOptions& options) {
  check_loader_options(options);
  if (dataset.shape() != pipeline.input()) {
    const auto [channels, height, width] = dataset.shape();
    const PictureShape& input = pipeline.input();
    fail(ErrorKind::invalid_argument, "loader",
         "the data set has pictures of {}x{}x{}, but the transforms take {}x{}x{}", channels, height, width,
         input.channels, input.height, input.width);
  }
  if (dataset.size() != sampler.options().dataset_size) {
    fail(ErrorKind::invalid_argument, "loader", "the data set has {} records, but the sampler counts {}",
         dataset.size(), sampler.options().dataset_size);
  }
}

/// The pool of a loader's batches. They return to the pool when their last owner releases them, so that their memory is
/// reused. Batches may outlive the pool. Thread-safe.
class BatchPool {
 public:
  /// Keeps at most `capacity` unused batches.
  explicit BatchPool(std::size_t capacity) : shelf_(std::make_shared<Shelf>()) { shelf_->batches.reserve(capacity); }

  /// A batch, new or reused; its contents are unspecified.
  std::shared_ptr<Batch> take() {
    std::unique_ptr<Batch> batch;
    {
      const std::lock_guard lock(shelf_->mutex);
      if (!shelf_->batches.empty()) {
        batch = std::move(shelf_->batches.back());
        shelf_->batches.pop_back();
      }
    }
    if (!batch) batch = std::make_unique<Batch>();
    const auto give_back = [shelf = shelf_](Batch* pointer) {
      std::unique_ptr<Batch> returned(pointer);
      const std::lock_guard lock(shelf->mutex);
      // Within the reserved capacity push_back does not allocate, and so cannot throw in this deleter.
      if (shelf->batches.size() < shelf->batches.capacity()) shelf->batches.push_back(std::move(returned));
    };
    return {batch.release(), give_back};
  }

 private:
  struct Shelf {
    std::mutex mutex;
    std::vector<std::unique_ptr<Batch>> batches;
  };

  std::shared_ptr<Shelf> shelf_;
};

}  // namespace

void check_loader_options(const LoaderOptions& options) {
  if (options.workers >= 0 && options.workers <= kMostWorkers && options.prefetch >= 0 &&
      options.prefetch <= kMostPrefetch) {
    return;
  }
  fail(ErrorKind::invalid_argument, "loader", "{} workers and {} batches ahead: there can be 0 to {} and 0 to {}",
       options.workers, options.prefetch, kMostWorkers, kMostPrefetch);
}

int batches_ahead(const LoaderOptions& options) {
  if (options.workers == 0) return 1;
  return options.prefetch > 0 ? options.prefetch : 2 * options.workers;
}

class Loader::Impl {
 public:
  Impl(std::shared_ptr<const Dataset> dataset, Pipeline pipeline, const ShardedSampler& sampler,
       const LoaderOptions& options)
      : dataset_(std::move(dataset)),
        pipeline_(std::move(pipeline)),
        sampler_(sampler),
        seed_(options.seed),
        // Batches in the ring buffer, batches that workers are making, and two that the consumer holds.
        pool_(static_cast<std::size_t>(batches_ahead(options) + options.workers + 2)),
        scratches_(static_cast<std::size_t>(std::max(options.workers, 1))),
        batches_(options.workers, batches_ahead(options),
                 [this](const Prefetcher<std::shared_ptr<Batch>>::Request& request) { return make(request); }) {}

  void start(std::int64_t epoch, std::int64_t step) { batches_.start({epoch, sampler_.epoch(epoch)}, step); }

  std::shared_ptr<Batch> next() { return batches_.next().value_or(nullptr); }

  const ShardedSampler& sampler() const { return sampler_; }
  const Pipeline& pipeline() const { return pipeline_; }

 private:
  std::shared_ptr<Batch> make(const Prefetcher<std::shared_ptr<Batch>>::Request& request) {
    const std::span<const std::int64_t> indices = request.run.order.batch(request.step);
    const std::size_t picture = picture_size(pipeline_.output());
    auto batch = pool_.take();
    batch->count = static_cast<std::int64_t>(indices.size());
    batch->shape = pipeline_.output();
    batch->epoch = request.run.epoch;
    batch->step = request.step;
    batch->global_count = sampler_.global_batch_size(request.step);
    batch->indices.assign(indices.begin(), indices.end());
    batch->labels.resize(indices.size());
    batch->pixels.resize(indices.size() * picture);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (request.cancelled()) break;
      const Record record = (*dataset_)[indices[i]];
      batch->labels[i] = record.label;
      pipeline_.apply(record.pixels, SampleKey{seed_, request.run.epoch, indices[i]},
                      std::span(batch->pixels).subspan(i * picture, picture),
                      scratches_[static_cast<std::size_t>(request.worker)]);
    }
    return batch;
  }

  const std::shared_ptr<const Dataset> dataset_;
  const Pipeline pipeline_;
  const ShardedSampler sampler_;
  const std::uint64_t seed_;
  BatchPool pool_;
  std::vector<Pipeline::Scratch> scratches_;    // by worker
  Prefetcher<std::shared_ptr<Batch>> batches_;  // last: its threads use the members above
};

Loader::Loader(std::shared_ptr<const Dataset> dataset, Pipeline pipeline, const ShardedSampler& sampler,
               const LoaderOptions& options) {
  check(*dataset, pipeline, sampler, options);
  impl_ = std::make_unique<Impl>(std::move(dataset), std::move(pipeline), sampler, options);
}

Loader::~Loader() = default;

void Loader::start(std::int64_t epoch, std::int64_t step) { impl_->start(epoch, step); }

std::shared_ptr<Batch> Loader::next() { return impl_->next(); }

const ShardedSampler& Loader::sampler() const { return impl_->sampler(); }

const Pipeline& Loader::pipeline() const { return impl_->pipeline(); }

}  // namespace lockstep::data
