// A second optimizer over copies of the previous rank's pieces, updated in each step with the same gradients.
#include <lockstep/mirrored/flat_memory.h>
#include <lockstep/train/recovery/shard_backup.h>

#include <fmt/format.h>
#include <torch/torch.h>

#include <utility>

namespace lockstep::train {
namespace {

// Copies into the memory of the previous copies, if there are any.
void copy_into(NamedTensors& copies, const NamedTensors& tensors) {
  NamedTensors next;
  for (const auto& [name, tensor] : tensors) {
    const auto found = copies.find(name);
    if (found == copies.end() || found->second.sizes() != tensor.sizes()) {
      next.emplace(name, tensor.clone());
    } else {
      next.emplace(name, found->second.copy_(tensor));
    }
  }
  copies = std::move(next);
}

PartAndCopy copy_of(const PartAndCopy& parts) {
  PartAndCopy copies;
  copy_into(copies.own, parts.own);
  copy_into(copies.copy, parts.copy);
  return copies;
}

at::Tensor piece_of(const at::Tensor& whole, const at::Tensor& parameter, const ParameterShards::Stretch& stretch) {
  return mirrored::stretch_of(mirrored::laid_out_as(whole, parameter), stretch.begin, stretch.elements);
}

}  // namespace

ShardBackup::ShardBackup(const OptimizerConfig& config, const ParameterShards& shards,
                         const torch::optim::Optimizer& own, const NamedParameters& parameters)
    : shards_(shards),
      own_(own),
      parameters_(parameters),
      stretches_(shards.stretches_of(rank_before(shards.group()))),
      own_stretches_(shards.stretches_of(shards.group().rank())) {
  const torch::NoGradGuard no_grad;
  std::vector<std::size_t> owners;
  for (const auto& stretch : stretches_) {
    const auto& parameter = shards_.parameters()[stretch.parameter];
    pieces_.push_back(piece_of(parameter, parameter, stretch).clone());
    owners.push_back(stretch.parameter);
  }
  optimizer_ = make_optimizer(config, parameters_, pieces_, owners);
}

ShardBackup::~ShardBackup() = default;

PartAndCopy ShardBackup::now() const {
  return {shard_state(shards_.pieces(), own_), shard_state(pieces_, *optimizer_)};
}

void ShardBackup::before_update() {
  const torch::NoGradGuard no_grad;
  const auto current = now();
  copy_into(before_.own, current.own);
  copy_into(before_.copy, current.copy);
}

void ShardBackup::update(double lr) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const auto& parameter = shards_.parameters()[stretches_[i].parameter];
    if (parameter.grad().defined()) pieces_[i].mutable_grad() = piece_of(parameter.grad(), parameter, stretches_[i]);
  }
  set_learning_rate(*optimizer_, lr);
  optimizer_->step();
  for (auto& piece : pieces_) piece.mutable_grad().reset();
  updated_ = true;
}

void ShardBackup::shared() { updated_ = false; }

void ShardBackup::load(StateSource& source, const NamedTensors& outline) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const auto& parameter = parameters_[stretches_[i].parameter].second;
    pieces_[i].copy_(piece_of(parameter, parameter, stretches_[i]));
  }
  load_optimizer_state(*optimizer_, named_by_number(pieces_),
                       read_stretches(source, outline, *optimizer_, parameters_, stretches_));
}

PartAndCopy ShardBackup::named(const PartAndCopy& parts) const {
  return {named_by_place(parts.own, own_stretches_, parameters_), named_by_place(parts.copy, stretches_, parameters_)};
}

KeptParts ShardBackup::take_parts() {
  const torch::NoGradGuard no_grad;
  KeptParts kept{divided_tensors(own_, parameters_), {}, std::nullopt};
  const auto current = named(copy_of(now()));
  if (updated_) {
    kept.last = named(before_);
    kept.next = current;
  } else {
    kept.last = current;
  }
  return kept;
}

}  // namespace lockstep::train
