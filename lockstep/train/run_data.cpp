#include <lockstep/base/config_node.h>
#include <lockstep/base/error.h>
#include <lockstep/base/parse.h>
#include <lockstep/data/format.h>
#include <lockstep/data/transform_spec.h>
#include <lockstep/train/config_keys.h>
#include <lockstep/train/run_data.h>

#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::train {
namespace {

[[noreturn]] void wrong(const ConfigNode& node, std::string_view what, std::string_view rule) {
  throw Error(ErrorKind::config, what, fmt::format("{}, not {}", rule, describe_found(node)), node.position);
}

double number(const ConfigNode& node, std::string_view what) {
  const auto value = node.kind == ConfigNode::Kind::scalar && !node.quoted ? parse_number(node.scalar) : std::nullopt;
  if (!value) wrong(node, what, "a list here holds numbers");
  return *value;
}

data::TransformValue value_of(const ConfigNode& node, std::string_view what) {
  if (node.kind == ConfigNode::Kind::list) {
    std::vector<double> numbers;
    for (const auto& item : node.items) numbers.push_back(number(item, what));
    return numbers;
  }
  if (node.kind != ConfigNode::Kind::scalar) wrong(node, what, "an argument is a number, a list of numbers or text");
  const auto value = node.quoted ? std::nullopt : parse_number(node.scalar);
  if (value) return *value;
  return node.scalar;
}

/// The configuration's transforms as the specs from which data/ builds them. Reads a list such as
/// `[random_crop: {size: 32, padding: 4}, hwc2chw]`. A scalar that is a number becomes one, other scalars are text.
/// Error(config), with the place in the file, for anything that is not a name with arguments of those kinds; names and
/// arguments themselves are checked by data::build_transforms. `what` is the list's key.
std::vector<data::TransformSpec> transform_specs(const ConfigNode& list, std::string_view what) {
  std::vector<data::TransformSpec> specs;
  for (const auto& item : read_named_list(list, what)) {
    data::TransformSpec spec{item.name, {}, item.position};
    const auto path = fmt::format("{}.{}", what, item.name);
    for (const auto& [key, node] : item.arguments.entries) {
      spec.arguments.push_back({key, value_of(node, path), node.position});
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

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

// The sampler would say the same without the keys.
void require_one_batch(const data::SamplerOptions& sampler, std::string_view dataset) {
  if (sampler.global_batch_size > sampler.dataset_size && sampler.remainder != data::Remainder::exact) {
    fail(ErrorKind::config, "data.global_batch_size",
         "is {}, but {} has {} pictures, which do not fill one batch; give at most {}, or use data.remainder=exact",
         sampler.global_batch_size, dataset, sampler.dataset_size, sampler.dataset_size);
  }
  const auto whole = sampler.batch_size * sampler.num_shards;
  if (sampler.global_batch_size > 0 || sampler.remainder != data::Remainder::drop || sampler.dataset_size >= whole)
    return;
  const auto most = sampler.dataset_size / sampler.num_shards;
  fail(ErrorKind::config, "data.batch_size",
       "is {}, for {} {} together {}, but {} has {} pictures, and data.remainder=drop leaves out batches that are not "
       "full; {}or use data.remainder=exact",
       sampler.batch_size, sampler.num_shards, sampler.num_shards == 1 ? "rank" : "ranks", whole, dataset,
       sampler.dataset_size, most > 0 ? fmt::format("give at most {}, ", most) : "use fewer ranks, ");
}

std::shared_ptr<const data::Dataset> load_dataset(const DataConfig& config, data::Split split) {
  try {
    return data::load_dataset(config.name, config.root, split);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::invalid_argument) throw;
    throw Error(ErrorKind::config, "data.root", error.message());
  }
}

RankData load(const RunConfig& config, data::Split split, data::SamplerOptions sampler) {
  auto dataset = load_dataset(config.data, split);
  require_enough_outputs(config, dataset->num_classes());
  sampler.dataset_size = dataset->size();
  require_one_batch(sampler, config.data.name);
  sampler.seed = shuffle_seed_of(config);
  data::LoaderOptions loading{static_cast<int>(config.data.workers), static_cast<int>(config.data.prefetch),
                              sampler.seed};
  return {std::move(dataset), make_pipeline(config.data, split), data::ShardedSampler(sampler), loading};
}

// Batches are counted as the configuration counts them: the last one, padded, is full only by a global size.
data::SamplerOptions with_batch(const DataConfig& config, data::SamplerOptions sampler) {
  if (config.global_batch_size) {
    sampler.global_batch_size = *config.global_batch_size;
  } else {
    sampler.batch_size = global_batch_size_of(config, 1);
  }
  return sampler;
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
              with_batch(config.data, {.num_shards = world_size,
                                       .shard_id = rank,
                                       .shuffle = config.data.shuffle,
                                       .remainder = remainder_of(config.data.remainder)}));
}

RankData load_eval_data(const RunConfig& config, int rank, int world_size) {
  data::SamplerOptions sampler{
      .num_shards = world_size, .shard_id = rank, .shuffle = false, .remainder = data::Remainder::exact};
  if (config.data.eval_batch_size) {
    sampler.batch_size = *config.data.eval_batch_size;
  } else {
    sampler = with_batch(config.data, sampler);
  }
  return load(config, data::Split::test, sampler);
}

}  // namespace lockstep::train
