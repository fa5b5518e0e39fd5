// The data of a rank: sampler options from the batch and remainder keys, loader options, and batches on the device.
#include <lockstep/base/error.h>
#include <lockstep/data/files/counted_remarks.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/resources/device_feed.h>
#include <lockstep/train/resources/run_data.h>

#include <string_view>
#include <utility>

namespace lockstep::train {
namespace {

data::Remainder remainder_of(const std::string& name) {
  if (name == "pad") return data::Remainder::pad;
  return name == "exact" ? data::Remainder::exact : data::Remainder::drop;
}

// The sampler would report the same without the names of the keys.
void require_one_batch(const data::SamplerOptions& sampler, std::string_view dataset) {
  if (sampler.global_batch_size > sampler.dataset_size && sampler.remainder != data::Remainder::exact) {
    fail(ErrorKind::config, "data.global_batch_size",
         "is {}, but {} has {} samples, which do not fill one batch; give at most {}, or use data.remainder=exact",
         sampler.global_batch_size, dataset, sampler.dataset_size, sampler.dataset_size);
  }
  const auto whole = sampler.batch_size * sampler.num_shards;
  if (sampler.global_batch_size > 0 || sampler.remainder != data::Remainder::drop || sampler.dataset_size >= whole)
    return;
  const auto most = sampler.dataset_size / sampler.num_shards;
  fail(ErrorKind::config, "data.batch_size",
       "is {}, for {} {} together {}, but {} has {} samples, and data.remainder=drop leaves out batches that are not "
       "full; {}or use data.remainder=exact",
       sampler.batch_size, sampler.num_shards, sampler.num_shards == 1 ? "rank" : "ranks", whole, dataset,
       sampler.dataset_size, most > 0 ? fmt::format("give at most {}, ", most) : "use fewer ranks, ");
}

// Batches are counted by the global size of the configuration: only then the last, padded batch counts as full.
data::SamplerOptions with_batch(const DataConfig& config, data::SamplerOptions sampler) {
  if (config.global_batch_size) {
    sampler.global_batch_size = *config.global_batch_size;
  } else {
    sampler.batch_size = global_batch_size_of(config, 1);
  }
  return sampler;
}

RankData shared_out(const RunConfig& config, std::shared_ptr<const samples::Dataset> dataset,
                    data::SamplerOptions sampler) {
  sampler.dataset_size = dataset->size();
  require_one_batch(sampler, config.data.name);
  sampler.seed = shuffle_seed_of(config);
  data::LoaderOptions loading{static_cast<int>(config.data.workers), static_cast<int>(config.data.prefetch),
                              sampler.seed};
  return {std::move(dataset), data::ShardedSampler(sampler), loading, {}};
}

}  // namespace

std::unique_ptr<samples::Batches> RankData::batches(const c10::Device& device) const {
  auto on_cpu = dataset->batches(dataset, sampler, loading);
  if (!device.is_cuda()) return on_cpu;
  return std::make_unique<DeviceFeed>(std::move(on_cpu), move_to(device));
}

void RankData::try_first_batch() const {
  const auto alone = dataset->batches(dataset, sampler, {.workers = 0, .prefetch = 1, .seed = loading.seed});
  alone->start(0, 0);
  alone->next();
}

RankData load_train_data(const RunConfig& config, const Program& program, int rank, int world_size) {
  const data::HeardReports heard;
  auto dataset = program.data(data::Split::train);
  if (!dataset || dataset->size() < 1) {
    fail(ErrorKind::data, "data", "there is nothing to train on: the training data has no samples");
  }
  auto found = shared_out(config, std::move(dataset),
                          with_batch(config.data, {.num_shards = world_size,
                                                   .shard_id = rank,
                                                   .shuffle = config.data.shuffle,
                                                   .remainder = remainder_of(config.data.remainder)}));
  found.reports = heard.lines();
  return found;
}

std::optional<RankData> load_eval_data(const RunConfig& config, const Program& program, int rank, int world_size) {
  const data::HeardReports heard;
  auto dataset = program.data(data::Split::test);
  if (!dataset) return std::nullopt;
  if (dataset->size() < 1) fail(ErrorKind::data, "data", "there is nothing to evaluate on: the data has no samples");
  data::SamplerOptions sampler{
      .num_shards = world_size, .shard_id = rank, .shuffle = false, .remainder = data::Remainder::exact};
  if (config.data.eval_batch_size) {
    sampler.batch_size = *config.data.eval_batch_size;
  } else {
    sampler = with_batch(config.data, sampler);
  }
  auto found = shared_out(config, std::move(dataset), sampler);
  found.reports = heard.lines();
  return found;
}

}  // namespace lockstep::train
