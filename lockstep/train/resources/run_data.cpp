// The data of a rank: lookup of the data set's part; sampler options from the batch and remainder keys; a thread that
// holds one batch ahead of the consumer, copied from pinned memory to the device on its own stream.
#include <lockstep/base/error.h>
#include <lockstep/comm/device/lane.h>
#include <lockstep/data/files/reports.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/foreign_tables.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/resources/run_data.h>

#include <ATen/core/Tensor.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <string_view>
#include <utility>
#include <vector>

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

RankData shared_out(const ResolvedRun& config, std::shared_ptr<const samples::Dataset> dataset,
                    data::SamplerOptions sampler) {
  sampler.dataset_size = dataset->size();
  require_one_batch(sampler, config.data.name);
  sampler.seed = shuffle_seed_of(config);
  data::LoaderOptions loading{static_cast<int>(config.data.workers), static_cast<int>(config.data.prefetch),
                              sampler.seed};
  return {std::move(dataset), data::ShardedSampler(sampler), loading, {}};
}

}  // namespace

const DataPart& data_part(const ResolvedRun& config) {
  return part_named(config.parts->data, config.data.name, "data.name");
}

samples::TransformList transforms_of(const ResolvedRun& run, data::Split split,
                                     const std::optional<data::PictureShape>& stored) {
  const auto& config = run.data;
  const auto& parts = run.parts->transforms;
  const auto words = refused_words();
  if (split == data::Split::test && config.eval_transforms.kind != ConfigNode::Kind::null) {
    return samples::read_transforms(config.eval_transforms, "data.eval_transforms", words, parts, true, stored);
  }
  return samples::read_transforms(config.train_transforms, "data.train_transforms", words, parts,
                                  split == data::Split::train, stored);
}

DeviceFeed::DeviceFeed(std::unique_ptr<samples::Batches> source, Move move)
    : source_(std::move(source)), move_(std::move(move)) {}

DeviceFeed::~DeviceFeed() { end(); }

void DeviceFeed::end() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void DeviceFeed::start(std::int64_t epoch, std::int64_t step) {
  end();
  source_->start(epoch, step);
  ahead_.reset();
  ended_ = false;
  left_out_ = 0;
  thread_ = std::thread([this] { run(); });
}

DeviceFeed::Taken DeviceFeed::take() {
  Taken taken;
  try {
    taken.batch = source_->next();
    if (taken.batch) taken.arrived = move_(*taken.batch);
  } catch (...) {
    taken.error = std::current_exception();
  }
  taken.left_out = source_->left_out();
  return taken;
}

void DeviceFeed::run() {
  for (;;) {
    auto taken = take();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_ || !ahead_; });
    if (ended_) return;
    const bool is_last = taken.error || !taken.batch;
    ahead_ = std::move(taken);
    ended_ = is_last;
    changed_.notify_all();
    if (is_last) return;
  }
}

std::optional<samples::Batch> DeviceFeed::next() {
  Taken taken;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_ || ahead_; });
    if (!ahead_) return std::nullopt;
    taken = *std::exchange(ahead_, std::nullopt);
  }
  changed_.notify_all();
  left_out_ = taken.left_out;
  if (taken.error) std::rethrow_exception(taken.error);
  if (taken.arrived) taken.arrived();
  return std::move(taken.batch);
}

DeviceFeed::Move move_to(const c10::Device& device) {
  const auto lane = std::make_shared<lockstep::detail::Lane>(device);
  return [lane, device](samples::Batch& batch) -> DeviceFeed::Arrived {
    std::vector<at::Tensor> moved;
    const auto move = [&](at::Tensor& tensor) {
      tensor = tensor.pin_memory().to(device, /*non_blocking=*/true);
      moved.push_back(tensor);
    };
    const auto copies = lane->run({}, [&] {
      const c10::StreamGuard on_lane(lane->stream());
      for (auto& [name, tensor] : batch.tensors) move(tensor);
      for (auto& [name, list] : batch.lists) {
        for (auto& tensor : list) move(tensor);
      }
    });
    return [copies, device, moved = std::move(moved)] {
      copies->order_current_stream();
      const auto current = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
      for (const auto& tensor : moved) tensor.record_stream(current);
    };
  };
}

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

RankData load_train_data(const ResolvedRun& config, const Program& program, int rank, int world_size) {
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

std::optional<RankData> load_eval_data(const ResolvedRun& config, const Program& program, int rank, int world_size) {
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
