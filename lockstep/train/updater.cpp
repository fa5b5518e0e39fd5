#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/train/clip_gradients.h>
#include <lockstep/train/updater.h>

#include <fmt/format.h>
#include <torch/torch.h>

namespace lockstep::train {
namespace {

std::vector<std::size_t> owners_of(const ParameterShards& shards) {
  std::vector<std::size_t> owners;
  for (std::size_t i = 0; i < shards.pieces().size(); ++i) owners.push_back(shards.owner(i));
  return owners;
}

at::Tensor find(const NamedTensors& tensors, std::string_view owner, std::string_view field) {
  const auto found = tensors.find(fmt::format("{}.{}", owner, field));
  return found == tensors.end() ? at::Tensor() : found->second;
}

/// By parameter, how many updates each saw; 0 for none.
at::Tensor steps_of(const NamedTensors& of_pieces, const ParameterShards& shards) {
  at::Tensor steps = torch::zeros({static_cast<std::int64_t>(shards.parameters().size())}, torch::kLong);
  for (std::size_t i = 0; i < shards.pieces().size(); ++i) {
    const auto step = find(of_pieces, std::to_string(i), kRememberedStep);
    if (step.defined()) steps[static_cast<std::int64_t>(shards.owner(i))] = step;
  }
  all_reduce(steps, shards.group(), ReduceOp::max);
  return steps;
}

void require_fits(const std::string& name, const at::Tensor& saved, const at::Tensor& parameter) {
  if (!saved.defined() || saved.sizes() == parameter.sizes()) return;
  fail(ErrorKind::data, "optimizer state", "{} has {} elements in the checkpoint, the model's parameter needs {}", name,
       saved.numel(), parameter.numel());
}

/// The whole state of a sharded optimizer, which updates the pieces of `shards`, whose parameters are `parameters`. A
/// collective.
NamedTensors sharded_optimizer_state(const torch::optim::Optimizer& optimizer, const ParameterShards& shards,
                                     const NamedParameters& parameters) {
  const auto of_pieces = optimizer_state(optimizer, named_by_number(shards.pieces()));
  NamedTensors out;
  for (const auto& field : remembered_tensors(optimizer)) {
    std::vector<at::Tensor> tensors;
    for (std::size_t i = 0; i < shards.pieces().size(); ++i) {
      tensors.push_back(find(of_pieces, std::to_string(i), field));
    }
    const auto whole = shards.whole(tensors);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      if (whole[i].defined()) out.emplace(fmt::format("{}.{}", parameters[i].first, field), whole[i]);
    }
  }
  const auto steps = steps_of(of_pieces, shards);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto step = steps[static_cast<std::int64_t>(i)];
    if (step.item<std::int64_t>() > 0) out.emplace(fmt::format("{}.{}", parameters[i].first, kRememberedStep), step);
  }
  return out;
}

/// Loads this rank's parts of a whole state. Error(data) as load_optimizer_state.
void load_sharded_optimizer_state(torch::optim::Optimizer& optimizer, const ParameterShards& shards,
                                  const NamedParameters& parameters, const NamedTensors& state) {
  NamedTensors left = state;
  NamedTensors of_pieces;
  for (const auto& field : remembered_tensors(optimizer)) {
    std::vector<at::Tensor> whole;
    for (const auto& [name, parameter] : parameters) {
      whole.push_back(find(state, name, field));
      require_fits(fmt::format("{}.{}", name, field), whole.back(), parameter);
      left.erase(fmt::format("{}.{}", name, field));
    }
    const auto parts = shards.parts(whole);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].defined()) of_pieces.emplace(fmt::format("{}.{}", i, field), parts[i]);
    }
  }
  for (std::size_t i = 0; i < shards.pieces().size(); ++i) {
    const auto step = find(state, parameters[shards.owner(i)].first, kRememberedStep);
    if (step.defined()) of_pieces.emplace(fmt::format("{}.{}", i, kRememberedStep), step);
  }
  for (const auto& [name, parameter] : parameters) left.erase(fmt::format("{}.{}", name, kRememberedStep));
  // What no parameter has is refused there, by name.
  of_pieces.merge(left);
  load_optimizer_state(optimizer, named_by_number(shards.pieces()), of_pieces);
}

}  // namespace

Updater::Updater(const OptimizerConfig& config, const DataParallel& parallel, bool sharded, bool recovers)
    : parameters_(trainable_parameters(parallel.module())) {
  if (sharded) shards_.emplace(parallel);
  optimizer_ = sharded ? make_optimizer(config, parameters_, shards_->pieces(), owners_of(*shards_))
                       : make_optimizer(config, parameters_);
  if (sharded && recovers && parallel.group().size() > 1) backup_.emplace(config, *shards_, *optimizer_, parameters_);
}

Updater::~Updater() = default;

void Updater::step(double lr, double clip_norm) {
  if (clip_norm > 0) clip_gradients(tensors_of(parameters_), clip_norm);
  set_learning_rate(*optimizer_, lr);
  if (shards_) shards_->take_gradients();
  if (backup_) backup_->before_update();
  optimizer_->step();
  if (backup_) backup_->update(lr);
  if (shards_) shards_->share();
  if (backup_) backup_->shared();
}

std::optional<ShardParts> Updater::take_shard_parts() {
  return backup_ ? std::optional(backup_->take_parts()) : std::nullopt;
}

NamedTensors Updater::state() const {
  return shards_ ? sharded_optimizer_state(*optimizer_, *shards_, parameters_)
                 : optimizer_state(*optimizer_, parameters_);
}

void Updater::load(const NamedTensors& state) {
  if (shards_) {
    load_sharded_optimizer_state(*optimizer_, *shards_, parameters_, state);
    if (backup_) backup_->load(state);
  } else {
    load_optimizer_state(*optimizer_, parameters_, state);
  }
}

}  // namespace lockstep::train
