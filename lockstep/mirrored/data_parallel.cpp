// Data parallel set-up. Order: compare replicas, broadcast parameters and buffers, sort parameters for the reducer.
#include <lockstep/base/error.h>
#include <lockstep/mirrored/data_parallel.h>
#include <lockstep/mirrored/reducer.h>
#include <lockstep/mirrored/replica.h>
#include <lockstep/mirrored/sparse_gradient.h>
#include <lockstep/mirrored/synchronized_batch_norms.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_set>
#include <utility>

namespace lockstep {

struct DataParallel::State {
  std::shared_ptr<torch::nn::Module> module;
  Group group;
  std::optional<mirrored::SynchronizedBatchNorms> batch_norms;  ///< none in a group of one
  std::optional<mirrored::CoalescedBroadcast> buffers;  ///< none in a group of one, or when there are none to send
  std::shared_ptr<mirrored::Reducer> reducer;           ///< none in a group of one; refers to buffers
  std::array<bool, DataParallel::kVotes> votes{};       ///< in a group of one

  State(std::shared_ptr<torch::nn::Module> trained, Group ranks)
      : module(std::move(trained)), group(std::move(ranks)) {}
};

namespace {

void require_valid(const std::shared_ptr<torch::nn::Module>& module, const DataParallelOptions& options) {
  if (!module) fail(ErrorKind::invalid_argument, "data_parallel", "the module must not be null");
  if (options.bucket_bytes < 1 || options.first_bucket_bytes < 1) {
    fail(ErrorKind::invalid_argument, "data_parallel",
         "bucket_bytes and first_bucket_bytes must be at least 1; they are {} and {}", options.bucket_bytes,
         options.first_bucket_bytes);
  }
}

std::string describe(const DataParallelOptions& options) {
  return fmt::format(
      "options gradients_mean={} bucket_bytes={} first_bucket_bytes={} buffers={} sync_batch_norm={} "
      "sparse_gradients={} ignored={}",
      options.gradients_mean, options.bucket_bytes, options.first_bucket_bytes,
      options.buffers == BufferPolicy::broadcast ? "broadcast" : "local", options.sync_batch_norm,
      options.sparse_gradients == SparseGradients::rows ? "rows" : "dense", fmt::join(options.ignored, ","));
}

/// Takes the parameters that the program updates itself out of the list.
void leave_out(std::vector<mirrored::NamedTensor>& parameters, const std::vector<std::string>& ignored) {
  for (const auto& name : ignored) {
    const auto found = std::ranges::find(parameters, name, &mirrored::NamedTensor::name);
    if (found == parameters.end()) {
      fail(ErrorKind::invalid_argument, "data_parallel", "there is no parameter {} to be ignored", name);
    }
    parameters.erase(found);
  }
}

/// The tables of sparse embeddings that can be exchanged as rows.
std::unordered_set<const c10::TensorImpl*> row_tables(const torch::nn::Module& module) {
  std::unordered_set<const c10::TensorImpl*> tables;
  for (const auto& table : mirrored::sparse_tables(module)) {
    if (table.is_cpu() && table.scalar_type() == at::kFloat) tables.insert(table.unsafeGetTensorImpl());
  }
  return tables;
}

std::vector<at::Tensor> tensors_of(const std::vector<mirrored::NamedTensor>& named) {
  std::vector<at::Tensor> tensors;
  for (const auto& each : named) tensors.push_back(each.tensor);
  return tensors;
}

/// Parameters of a module and those inside it; shared ones count at each place.
std::size_t count_parameters(const torch::nn::Module& module) {
  auto count = module.parameters(/*recurse=*/false).size();
  for (const auto& child : module.children()) count += count_parameters(*child);
  return count;
}

}  // namespace

DataParallel::DataParallel(std::shared_ptr<torch::nn::Module> module, Group group, DataParallelOptions options)
    : state_(std::make_unique<State>(std::move(module), std::move(group))) {
  require_valid(state_->module, options);
  if (state_->group.size() == 1) return;

  mirrored::Replica replica = mirrored::replica_of(*state_->module);
  mirrored::require_same(mirrored::describe(replica, describe(options)), state_->group);
  mirrored::broadcast_all(tensors_of(replica.parameters), state_->group);
  if (options.sync_batch_norm) state_->batch_norms.emplace(*state_->module, state_->group);
  const auto stays_equal = [&](const auto& each) {
    return state_->batch_norms && state_->batch_norms->covers(each.tensor);
  };
  const bool all_stay_equal = std::all_of(replica.buffers.begin(), replica.buffers.end(), stays_equal);
  if (!replica.buffers.empty()) {
    state_->buffers.emplace(tensors_of(replica.buffers), state_->group);
    synchronize_buffers();
  }

  leave_out(replica.parameters, options.ignored);
  mirrored::ReducedParameters parameters;
  const bool as_rows = options.sparse_gradients == SparseGradients::rows;
  const auto tables = as_rows ? row_tables(*state_->module) : std::unordered_set<const c10::TensorImpl*>();
  for (auto& each : replica.parameters) {
    auto& list = !each.tensor.requires_grad()                         ? parameters.frozen
                 : tables.contains(each.tensor.unsafeGetTensorImpl()) ? parameters.of_rows
                                                                      : parameters.trainable;
    list.push_back(std::move(each));
  }
  if (parameters.trainable.empty() && parameters.of_rows.empty()) return;
  parameters.count = [module = state_->module.get()] { return count_parameters(*module); };
  const bool follow = options.buffers == BufferPolicy::broadcast && state_->buffers && !all_stay_equal;
  state_->reducer = std::make_shared<mirrored::Reducer>(
      std::move(parameters), mirrored::BucketLimits{options.bucket_bytes, options.first_bucket_bytes},
      options.gradients_mean, state_->group, follow ? &*state_->buffers : nullptr);
}

DataParallel::~DataParallel() = default;
DataParallel::DataParallel(DataParallel&&) noexcept = default;
DataParallel& DataParallel::operator=(DataParallel&&) noexcept = default;

DataParallel::NoSync::NoSync(DataParallel& parallel) : parallel_(parallel), before_(parallel.synchronizes()) {
  parallel_.set_synchronizes(false);
}

DataParallel::NoSync::~NoSync() { parallel_.set_synchronizes(before_); }

bool DataParallel::synchronizes() const { return !state_->reducer || state_->reducer->synchronizes(); }

void DataParallel::set_synchronizes(bool synchronizes) {
  if (state_->reducer) state_->reducer->set_synchronizes(synchronizes);
}

void DataParallel::backward_without_data() {
  if (state_->reducer) state_->reducer->round_without_gradients();
}

void DataParallel::vote(int subject, bool yes) {
  static_assert(kVotes == mirrored::kVotes);
  if (state_->reducer) {
    state_->reducer->vote(subject, yes);
  } else {
    state_->votes.at(static_cast<std::size_t>(subject)) = yes && state_->group.size() == 1;
  }
}

int DataParallel::votes(int subject) const {
  return state_->reducer ? state_->reducer->votes(subject)
                         : static_cast<int>(state_->votes.at(static_cast<std::size_t>(subject)));
}

void DataParallel::synchronize_buffers() {
  if (!state_->buffers) return;
  state_->buffers->start();
  state_->buffers->finish();
}

torch::nn::Module& DataParallel::module() const { return *state_->module; }
const Group& DataParallel::group() const { return state_->group; }

}  // namespace lockstep
