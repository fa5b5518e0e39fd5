// Batches of samples made ahead by threads, collation (stack, pad, list) and random numbers by step name; also data
// sets of tensors and of transformed samples.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/data/prefetcher.h>
#include <lockstep/data/sampler.h>
#include <lockstep/samples/changed_dataset.h>
#include <lockstep/samples/dataset.h>

#include <ATen/ATen.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <ranges>
#include <utility>

namespace lockstep::samples {
namespace {

data::RandomStream stream_of(std::uint64_t seed, std::int64_t epoch, std::int64_t index, std::string_view step) {
  std::uint64_t name = step.size();
  for (const char letter : step) name = data::mix64(name ^ static_cast<unsigned char>(letter));
  return {seed,
          data::RandomPurpose::named_step,
          {static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(index), name}};
}

// Batches by `get` and `collate`.
class SampleBatches final : public Batches {
 public:
  SampleBatches(std::shared_ptr<const Dataset> dataset, const data::ShardedSampler& sampler,
                const data::LoaderOptions& options, BatchTransform change = {})
      : dataset_(std::move(dataset)),
        change_(std::move(change)),
        sampler_(sampler),
        seed_(options.seed),
        batches_(options.workers, data::batches_ahead(options),
                 [this](const data::Prefetcher<Batch>::Request& request) { return make(request); }) {}

  void start(std::int64_t epoch, std::int64_t step) override {
    left_out_ = 0;
    batches_.start({epoch, dataset_->order(sampler_, epoch)}, step);
  }

  std::optional<Batch> next() override {
    auto batch = batches_.next();
    if (batch) left_out_ += batch->left_out;
    return batch;
  }

  std::int64_t left_out() const override { return left_out_; }

 private:
  Batch make(const data::Prefetcher<Batch>::Request& request) const {
    const auto indices = request.run.order.batch(request.step);
    const at::NoGradGuard no_grad;
    std::vector<Sample> samples;
    std::vector<std::int64_t> used;
    std::map<std::int64_t, std::string> left_out;
    for (const auto index : indices) {
      if (request.cancelled()) return {};
      const Chance chance(seed_, request.run.epoch, index);
      if (const auto reason = add_sample(samples, index, chance)) {
        left_out.emplace(index, *reason);
      } else {
        used.push_back(index);
      }
    }
    Batch batch = samples.empty() ? nothing() : dataset_->collate(std::move(samples));
    batch.count = static_cast<std::int64_t>(used.size());
    batch.left_out = static_cast<std::int64_t>(indices.size() - used.size());
    batch.left_out_because = std::move(left_out);
    batch.indices = std::move(used);
    if (batch.count == 0 || !change_) return batch;
    const Chance chance(seed_, request.run.epoch, batch.indices.front());
    return change_(std::move(batch), chance);
  }

  /// The reason why the sample was left out; nullopt: it was not.
  std::optional<std::string> add_sample(std::vector<Sample>& samples, std::int64_t index, const Chance& chance) const {
    try {
      samples.push_back(dataset_->get(index, chance));
      return std::nullopt;
    } catch (const Error& error) {
      if (!dataset_->leaves_out_errors() || error.kind() != ErrorKind::data) throw;
      log_warning("sample {} was left out: {}", index, error.what());
      return error.message();
    } catch (const c10::Error& error) {
      fail(ErrorKind::data, "data", "sample {}: {}", index, error.what_without_backtrace());
    } catch (const std::exception& error) {
      fail(ErrorKind::data, "data", "sample {}: {}", index, error.what());
    }
  }

  // A batch without samples still has its fields.
  Batch nothing() const {
    Batch batch = dataset_->example();
    for (auto& [name, tensor] : batch.tensors) tensor = tensor.narrow(0, 0, 0);
    for (auto& [name, texts] : batch.texts) texts.clear();
    for (auto& [name, list] : batch.lists) list.clear();
    return batch;
  }

  const std::shared_ptr<const Dataset> dataset_;
  const BatchTransform change_;
  const data::ShardedSampler sampler_;
  const std::uint64_t seed_;
  std::int64_t left_out_ = 0;
  data::Prefetcher<Batch> batches_;  // last: its threads use the members above
};

class TensorDataset final : public Dataset {
 public:
  explicit TensorDataset(Tensors tensors) : tensors_(std::move(tensors)) {}

  std::int64_t size() const override { return tensors_.begin()->second.size(0); }

  Sample get(std::int64_t index, const Chance&) const override {
    Sample sample;
    for (const auto& [name, tensor] : tensors_) sample.tensors.emplace(name, tensor[index]);
    return sample;
  }

 private:
  Tensors tensors_;
};

class MappedDataset final : public ChangedDataset {
 public:
  MappedDataset(std::shared_ptr<const Dataset> dataset, Transform transform)
      : ChangedDataset(std::move(dataset)), transform_(std::move(transform)) {}

  Sample get(std::int64_t index, const Chance& chance) const override {
    return transform_(dataset().get(index, chance), chance);
  }

 private:
  Transform transform_;
};

class DatasetOfMappedBatches final : public ChangedDataset {
 public:
  DatasetOfMappedBatches(std::shared_ptr<const Dataset> dataset, BatchTransform transform)
      : ChangedDataset(std::move(dataset)), transform_(std::move(transform)) {}

  std::unique_ptr<Batches> batches(std::shared_ptr<const Dataset> self, const data::ShardedSampler& sampler,
                                   const data::LoaderOptions& options) const override {
    data::check_loader_options(options);
    return std::make_unique<SampleBatches>(std::move(self), sampler, options, transform_);
  }

  Batch example() const override { return transform_(dataset().example(), Chance(0, 0, 0)); }

 private:
  BatchTransform transform_;
};

std::vector<std::int64_t> largest_sizes(const std::vector<at::Tensor>& tensors, std::string_view field) {
  std::vector<std::int64_t> sizes = tensors.front().sizes().vec();
  for (const auto& tensor : tensors) {
    if (tensor.dim() != static_cast<std::int64_t>(sizes.size())) {
      fail(ErrorKind::data, "samples", "the samples of a batch have {} with {} and with {} dimensions", field,
           sizes.size(), tensor.dim());
    }
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      sizes[d] = std::max(sizes[d], tensor.size(static_cast<std::int64_t>(d)));
    }
  }
  return sizes;
}

at::Tensor padded(const at::Tensor& tensor, const std::vector<std::int64_t>& sizes, double value) {
  if (tensor.sizes() == at::IntArrayRef(sizes)) return tensor;
  auto out = at::full(sizes, value, tensor.options());
  auto part = out;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) part = part.narrow(d, 0, tensor.size(d));
  part.copy_(tensor);
  return out;
}

at::Tensor stacked(const std::vector<at::Tensor>& tensors, std::string_view field) {
  for (const auto& tensor : tensors) {
    if (tensor.sizes() == tensors.front().sizes()) continue;
    fail(ErrorKind::data, "samples",
         "the samples of a batch have {} of shapes [{}] and [{}], which cannot be stacked; make them equal, or "
         "override Dataset::collate, for example with pad_and_stack",
         field, fmt::join(tensors.front().sizes(), ", "), fmt::join(tensor.sizes(), ", "));
  }
  return at::stack(tensors);
}

at::Tensor padded_and_stacked(const std::vector<at::Tensor>& tensors, std::string_view field, double value) {
  const auto sizes = largest_sizes(tensors, field);
  std::vector<at::Tensor> equal;
  for (const auto& tensor : tensors) equal.push_back(padded(tensor, sizes, value));
  return at::stack(equal);
}

// Puts a field of all samples into the batch.
using Join = std::function<void(Batch&, std::vector<at::Tensor>, const std::string& field)>;

Batch join(std::vector<Sample> samples, const Join& join_field) {
  Batch batch;
  batch.count = static_cast<std::int64_t>(samples.size());
  for (const auto& [name, first] : samples.front().tensors) {
    std::vector<at::Tensor> column;
    for (auto& sample : samples) {
      const auto found = sample.tensors.find(name);
      if (found == sample.tensors.end() || sample.tensors.size() != samples.front().tensors.size()) {
        fail(ErrorKind::data, "samples",
             "the samples of a batch have different fields: one has {}, another {}; every sample needs the same",
             fmt::join(samples.front().tensors | std::views::keys, ", "),
             fmt::join(sample.tensors | std::views::keys, ", "));
      }
      column.push_back(found->second);
    }
    join_field(batch, std::move(column), name);
  }
  for (const auto& [name, first] : samples.front().texts) {
    auto& column = batch.texts[name];
    for (auto& sample : samples) column.push_back(std::move(sample.texts[name]));
  }
  return batch;
}

}  // namespace

std::uint64_t Chance::seed(std::string_view step) const { return stream_of(seed_, epoch_, index_, step).next(); }

data::RandomStream Chance::stream(std::string_view step) const {
  return {seed(step), data::RandomPurpose::named_step, {}};
}

double Chance::uniform(std::string_view step) const { return stream_of(seed_, epoch_, index_, step).uniform(); }

const at::Tensor& Batch::operator[](std::string_view field) const {
  const auto found = tensors.find(field);
  if (found != tensors.end()) return found->second;
  fail(ErrorKind::invalid_argument, "samples", "the batch has no field '{}'; it has {}", field,
       fmt::join(tensors | std::views::keys, ", "));
}

Batch Dataset::collate(std::vector<Sample> samples) const { return stack(std::move(samples)); }

std::unique_ptr<Batches> Dataset::batches(std::shared_ptr<const Dataset> self, const data::ShardedSampler& sampler,
                                          const data::LoaderOptions& options) const {
  data::check_loader_options(options);
  return std::make_unique<SampleBatches>(std::move(self), sampler, options);
}

Batch Dataset::example() const {
  std::vector<Sample> one;
  // The first intact sample, if damaged samples are left out.
  const auto most = leaves_out_errors() ? size() : 1;
  for (std::int64_t index = 0; one.empty(); ++index) {
    try {
      one.push_back(get(index, Chance(0, 0, index)));
    } catch (const Error& error) {
      if (index + 1 >= most || error.kind() != ErrorKind::data) throw;
    }
  }
  return collate(std::move(one));
}

Batch stack(std::vector<Sample> samples) { return collate(std::move(samples), {}); }

Batch pad_and_stack(std::vector<Sample> samples, double value) {
  return join(std::move(samples), [value](Batch& batch, std::vector<at::Tensor> column, const std::string& field) {
    batch.tensors.emplace(field, padded_and_stacked(column, field, value));
  });
}

Batch collate(std::vector<Sample> samples, const std::map<std::string, Collate, std::less<>>& how) {
  return join(std::move(samples), [&how](Batch& batch, std::vector<at::Tensor> column, const std::string& field) {
    const auto found = how.find(field);
    const auto way = found == how.end() ? Collate::stack : found->second;
    if (way == Collate::list) {
      batch.lists.emplace(field, std::move(column));
    } else {
      batch.tensors.emplace(field, way == Collate::pad ? padded_and_stacked(column, field, 0) : stacked(column, field));
    }
  });
}

std::shared_ptr<const Dataset> from_tensors(Tensors tensors) {
  if (tensors.empty()) fail(ErrorKind::invalid_argument, "samples", "a data set of tensors needs at least one field");
  const auto& [first, sizes] = *tensors.begin();
  for (const auto& [name, tensor] : tensors) {
    if (tensor.dim() > 0 && sizes.dim() > 0 && tensor.size(0) == sizes.size(0)) continue;
    fail(ErrorKind::invalid_argument, "samples",
         "the fields of a data set of tensors need the same size along dimension 0: {} has shape [{}], {} has [{}]",
         first, fmt::join(sizes.sizes(), ", "), name, fmt::join(tensor.sizes(), ", "));
  }
  return std::make_shared<TensorDataset>(std::move(tensors));
}

std::shared_ptr<const Dataset> mapped(std::shared_ptr<const Dataset> dataset, Transform transform) {
  return std::make_shared<MappedDataset>(std::move(dataset), std::move(transform));
}

std::shared_ptr<const Dataset> mapped_batches(std::shared_ptr<const Dataset> dataset, BatchTransform transform) {
  return std::make_shared<DatasetOfMappedBatches>(std::move(dataset), std::move(transform));
}

}  // namespace lockstep::samples
