// Pictures in memory as samples, and batches of them by a compiled list, in memory that is used again.
#include <lockstep/base/error.h>
#include <lockstep/data/prefetcher.h>
#include <lockstep/samples/changed_dataset.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/samples/stored_pictures.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace lockstep::samples {
namespace {

class StoredPictures final : public Dataset {
 public:
  explicit StoredPictures(std::shared_ptr<const data::Pictures> pictures) : pictures_(std::move(pictures)) {}

  std::int64_t size() const override { return pictures_->size(); }

  Sample get(std::int64_t index, const Chance&) const override {
    const auto [channels, height, width] = pictures_->shape();
    const auto record = (*pictures_)[index];
    // Only read: the clone has memory of its own, which transforms may change in place.
    auto* pixels = const_cast<std::uint8_t*>(record.pixels.data());
    auto picture = at::from_blob(pixels, {channels, height, width}, at::kByte).permute({1, 2, 0});
    return {{{kPictures, picture.clone(at::MemoryFormat::Contiguous)},
             {kLabels, at::scalar_tensor(record.label, at::kLong)}},
            {}};
  }

  std::shared_ptr<const data::Pictures> stored() const override { return pictures_; }

 private:
  std::shared_ptr<const data::Pictures> pictures_;
};

/// The memory of batches. It returns to the pool when its last owner releases it. It may outlive the pool. Thread-safe.
class BatchPool {
 public:
  struct Memory {
    at::Tensor pictures;
    at::Tensor labels;
  };

  /// Keeps at most `capacity` that are unused.
  explicit BatchPool(std::size_t capacity) : shelf_(std::make_shared<Shelf>()) { shelf_->unused.reserve(capacity); }

  /// Memory for `count` pictures, new or used before; its contents are unspecified.
  std::shared_ptr<Memory> take(std::int64_t count, const data::PictureShape& shape) {
    std::unique_ptr<Memory> memory;
    {
      const std::lock_guard lock(shelf_->mutex);
      if (!shelf_->unused.empty()) {
        memory = std::move(shelf_->unused.back());
        shelf_->unused.pop_back();
      }
    }
    if (!memory || memory->pictures.size(0) < count) {
      memory = std::make_unique<Memory>();
      memory->pictures = at::empty({count, shape.channels, shape.height, shape.width}, at::kFloat);
      memory->labels = at::empty({count}, at::kLong);
    }
    const auto give_back = [shelf = shelf_](Memory* pointer) {
      std::unique_ptr<Memory> returned(pointer);
      const std::lock_guard lock(shelf->mutex);
      // Within the reserved capacity push_back does not allocate, and so cannot throw in this deleter.
      if (shelf->unused.size() < shelf->unused.capacity()) shelf->unused.push_back(std::move(returned));
    };
    return {memory.release(), give_back};
  }

 private:
  struct Shelf {
    std::mutex mutex;
    std::vector<std::unique_ptr<Memory>> unused;
  };

  std::shared_ptr<Shelf> shelf_;
};

/// The first `count` rows of `memory`, which keep `owner` alive.
at::Tensor rows_of(const at::Tensor& memory, std::int64_t count, const std::shared_ptr<BatchPool::Memory>& owner) {
  auto sizes = memory.sizes().vec();
  sizes.front() = count;
  return at::from_blob(
      memory.data_ptr(), sizes, [owner](void*) {}, memory.options());
}

class PlannedBatches final : public Batches {
 public:
  PlannedBatches(std::shared_ptr<const data::Pictures> pictures, data::PicturePlan plan,
                 const data::ShardedSampler& sampler, const data::LoaderOptions& options)
      : pictures_(std::move(pictures)),
        plan_(std::move(plan)),
        sampler_(sampler),
        seed_(options.seed),
        // Batches in the ring buffer, batches that workers are making, and two that the consumer holds.
        pool_(static_cast<std::size_t>(data::batches_ahead(options) + options.workers + 2)),
        scratches_(static_cast<std::size_t>(std::max(options.workers, 1))),
        batches_(options.workers, data::batches_ahead(options),
                 [this](const data::Prefetcher<Batch>::Request& request) { return make(request); }) {}

  void start(std::int64_t epoch, std::int64_t step) override { batches_.start({epoch, sampler_.epoch(epoch)}, step); }
  std::optional<Batch> next() override { return batches_.next(); }

 private:
  Batch make(const data::Prefetcher<Batch>::Request& request) {
    const auto indices = request.run.order.batch(request.step);
    const auto count = static_cast<std::int64_t>(indices.size());
    const auto picture = data::picture_size(plan_.output());
    const auto memory = pool_.take(count, plan_.output());
    const std::span pixels(memory->pictures.data_ptr<float>(), indices.size() * picture);
    const std::span labels(memory->labels.data_ptr<std::int64_t>(), indices.size());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (request.cancelled()) break;
      const auto record = (*pictures_)[indices[i]];
      labels[i] = record.label;
      plan_.apply(record.pixels, {seed_, request.run.epoch, indices[i]}, pixels.subspan(i * picture, picture),
                  scratches_[static_cast<std::size_t>(request.worker)]);
    }
    Batch batch;
    batch.count = count;
    batch.indices.assign(indices.begin(), indices.end());
    batch.tensors.emplace(kPictures, rows_of(memory->pictures, count, memory));
    batch.tensors.emplace(kLabels, rows_of(memory->labels, count, memory));
    return batch;
  }

  const std::shared_ptr<const data::Pictures> pictures_;
  const data::PicturePlan plan_;
  const data::ShardedSampler sampler_;
  const std::uint64_t seed_;
  BatchPool pool_;
  std::vector<data::PicturePlan::Scratch> scratches_;  // by worker
  data::Prefetcher<Batch> batches_;                    // last: its threads use the members above
};

class PlannedPictures final : public ChangedDataset {
 public:
  PlannedPictures(std::shared_ptr<const Dataset> stored, data::PicturePlan plan)
      : ChangedDataset(std::move(stored)), pictures_(dataset().stored()), plan_(std::move(plan)) {}

  Sample get(std::int64_t index, const Chance& chance) const override {
    const auto& shape = plan_.output();
    auto picture = at::empty({shape.channels, shape.height, shape.width}, at::kFloat);
    const auto record = (*pictures_)[index];
    data::PicturePlan::Scratch scratch;
    plan_.apply(record.pixels, {chance.run_seed(), chance.epoch(), index},
                {picture.data_ptr<float>(), data::picture_size(shape)}, scratch);
    return {{{kPictures, picture}, {kLabels, at::scalar_tensor(record.label, at::kLong)}}, {}};
  }

  std::unique_ptr<Batches> batches(std::shared_ptr<const Dataset>, const data::ShardedSampler& sampler,
                                   const data::LoaderOptions& options) const override {
    data::check_loader_options(options);
    if (size() != sampler.options().dataset_size) {
      fail(ErrorKind::invalid_argument, "loader", "the data set has {} records, but the sampler counts {}", size(),
           sampler.options().dataset_size);
    }
    return std::make_unique<PlannedBatches>(pictures_, plan_, sampler, options);
  }

  Batch example() const override { return picture_example(plan_.output()); }

 private:
  std::shared_ptr<const data::Pictures> pictures_;
  data::PicturePlan plan_;
};

}  // namespace

std::shared_ptr<const Dataset> from_pictures(std::shared_ptr<const data::Pictures> pictures) {
  return std::make_shared<StoredPictures>(std::move(pictures));
}

std::shared_ptr<const Dataset> planned_pictures(std::shared_ptr<const Dataset> dataset, data::PicturePlan plan) {
  const auto [channels, height, width] = dataset->stored()->shape();
  if (const auto& input = plan.input(); input != data::PictureShape{channels, height, width}) {
    fail(ErrorKind::invalid_argument, "loader",
         "the data set has pictures of {}x{}x{}, but the transforms take {}x{}x{}", channels, height, width,
         input.channels, input.height, input.width);
  }
  return std::make_shared<PlannedPictures>(std::move(dataset), std::move(plan));
}

Batch picture_example(const data::PictureShape& shape) {
  Batch batch;
  batch.count = 1;
  batch.tensors.emplace(kPictures, at::zeros({1, shape.channels, shape.height, shape.width}, at::kFloat));
  batch.tensors.emplace(kLabels, at::zeros({1}, at::kLong));
  return batch;
}

void describe(ConfigFields& fields, PictureFolderOptions& options) {
  fields.field("root", options.root, required(a_path()), "folder with the data set's files");
}

std::shared_ptr<const Dataset> load_picture_folder(std::string_view name, const PictureFolderOptions& options,
                                                   data::Split split) {
  try {
    return from_pictures(data::load_pictures(name, options.root, split));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::invalid_argument) throw;
    throw Error(ErrorKind::config, "data.root", error.message());
  }
}

}  // namespace lockstep::samples
