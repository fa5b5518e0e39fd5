#include <lockstep/base/error.h>
#include <lockstep/data/format.h>
#include <lockstep/train/run_data.h>
#include <lockstep/train/transform_config.h>

#include <utility>
#include <vector>

namespace lockstep::train {
namespace {

data::Remainder remainder_of(const std::string& name) {
  if (name == "pad") return data::Remainder::pad;
  return name == "exact" ? data::Remainder::exact : data::Remainder::drop;
}

void require_enough_outputs(const RunConfig& config, int classes) {
  if (config.model.num_classes >= classes) return;
  fail(ErrorKind::config, "model.num_classes", "is {}, but {} has {} classes; give at least as many",
       config.model.num_classes, config.data.name, classes);
}

/// The steps for evaluation when none are given: pictures as training sees them, but for what is left to chance.
std::vector<data::TransformSpec> without_chance(std::vector<data::TransformSpec> specs) {
  std::erase_if(specs, [](const auto& spec) { return spec.name.starts_with("random_"); });
  return specs;
}

std::vector<data::TransformSpec> specs_of(const DataConfig& config, data::Split split) {
  const auto train = [&] { return transform_specs(config.train_transforms, "data.train_transforms"); };
  if (split == data::Split::train) return train();
  if (config.eval_transforms.kind == ConfigNode::Kind::null) return without_chance(train());
  return transform_specs(config.eval_transforms, "data.eval_transforms");
}

RankData load(const RunConfig& config, data::Split split, data::SamplerOptions sampler) {
  auto dataset = data::load_dataset(config.data.name, config.data.root, split);
  require_enough_outputs(config, dataset->num_classes());
  sampler.dataset_size = dataset->size();
  sampler.seed = shuffle_seed_of(config);
  data::LoaderOptions loading{static_cast<int>(config.data.workers), static_cast<int>(config.data.prefetch),
                              sampler.seed};
  return {std::move(dataset), make_pipeline(config.data, split), data::ShardedSampler(sampler), loading};
}

}  // namespace

data::Pipeline make_pipeline(const DataConfig& config, data::Split split) {
  return {specs_of(config, split), data::find_format(config.name).shape};
}

std::unique_ptr<data::Loader> RankData::make_loader() const {
  return std::make_unique<data::Loader>(dataset, pipeline, sampler, loading);
}

RankData load_train_data(const RunConfig& config, int rank, int world_size) {
  return load(config, data::Split::train,
              {.num_shards = world_size,
               .shard_id = rank,
               .shuffle = config.data.shuffle,
               .remainder = remainder_of(config.data.remainder),
               .batch_size = config.data.batch_size});
}

RankData load_eval_data(const RunConfig& config, int rank, int world_size) {
  return load(config, data::Split::test,
              {.num_shards = world_size,
               .shard_id = rank,
               .shuffle = false,
               .remainder = data::Remainder::exact,
               .batch_size = eval_batch_size_of(config.data)});
}

}  // namespace lockstep::train
