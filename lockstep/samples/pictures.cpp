// An adapter from the loader of small pictures to samples: tensors share the memory of the loader's batches.
#include <lockstep/data/loader.h>
#include <lockstep/samples/pictures.h>

#include <ATen/ATen.h>

#include <utility>

namespace lockstep::samples {
namespace {

at::Tensor over(void* memory, at::IntArrayRef shape, at::ScalarType dtype, const std::shared_ptr<data::Batch>& owner) {
  return at::from_blob(
      memory, shape, [owner](void*) {}, at::TensorOptions(dtype));
}

// Tensors that share the memory of a loader's batch and keep it alive.
Batch to_samples(const std::shared_ptr<data::Batch>& batch) {
  const auto& shape = batch->shape;
  Batch out;
  out.count = batch->count;
  out.indices = batch->indices;
  out.tensors.emplace(kPictures, over(batch->pixels.data(), {batch->count, shape.channels, shape.height, shape.width},
                                      at::kFloat, batch));
  out.tensors.emplace(kLabels, over(batch->labels.data(), {batch->count}, at::kLong, batch));
  return out;
}

class PictureBatches final : public Batches {
 public:
  PictureBatches(std::shared_ptr<const data::Dataset> pictures, data::Pipeline pipeline,
                 const data::ShardedSampler& sampler, const data::LoaderOptions& options)
      : loader_(std::move(pictures), std::move(pipeline), sampler, options) {}

  void start(std::int64_t epoch, std::int64_t step) override { loader_.start(epoch, step); }

  std::optional<Batch> next() override {
    const auto batch = loader_.next();
    return batch ? std::optional(to_samples(batch)) : std::nullopt;
  }

 private:
  data::Loader loader_;
};

class PictureDataset final : public Dataset {
 public:
  PictureDataset(std::shared_ptr<const data::Dataset> pictures, data::Pipeline pipeline)
      : pictures_(std::move(pictures)), pipeline_(std::move(pipeline)) {}

  std::int64_t size() const override { return pictures_->size(); }

  Sample get(std::int64_t index, const Chance& chance) const override {
    const auto& shape = pipeline_.output();
    auto picture = at::empty({shape.channels, shape.height, shape.width}, at::kFloat);
    const auto record = (*pictures_)[index];
    data::Pipeline::Scratch scratch;
    pipeline_.apply(record.pixels, {chance.seed("pictures"), chance.epoch(), index},
                    {picture.data_ptr<float>(), data::picture_size(shape)}, scratch);
    return {{{kPictures, picture}, {kLabels, at::scalar_tensor(record.label, at::kLong)}}, {}};
  }

  std::unique_ptr<Batches> batches(std::shared_ptr<const Dataset>, const data::ShardedSampler& sampler,
                                   const data::LoaderOptions& options) const override {
    return std::make_unique<PictureBatches>(pictures_, pipeline_, sampler, options);
  }

  Batch example() const override { return picture_example(pipeline_.output()); }

 private:
  std::shared_ptr<const data::Dataset> pictures_;
  data::Pipeline pipeline_;
};

}  // namespace

std::shared_ptr<const Dataset> picture_dataset(std::shared_ptr<const data::Dataset> pictures, data::Pipeline pipeline) {
  return std::make_shared<PictureDataset>(std::move(pictures), std::move(pipeline));
}

Batch picture_example(const data::PictureShape& shape) {
  Batch batch;
  batch.count = 1;
  batch.tensors.emplace(kPictures, at::zeros({1, shape.channels, shape.height, shape.width}, at::kFloat));
  batch.tensors.emplace(kLabels, at::zeros({1}, at::kLong));
  return batch;
}

}  // namespace lockstep::samples
