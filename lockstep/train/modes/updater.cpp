// The optimizer step of data parallelism, whole or in shards (ZeRO stage 1), with backup of shards; state to and from
// checkpoints, where shards are written and read as boxes of the parameters. And a training step launched as a CUDA
// graph: the conditions that prevent recording, and a loss that the host reads only at some steps.
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/comm/texts.h>
#include <lockstep/kernels/tuning.h>
#include <lockstep/mirrored/sparse_gradient.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/state/tensors.h>
#include <lockstep/train/modes/parallel_run.h>
#include <lockstep/train/modes/updater.h>
#include <lockstep/train/optimizer/gradient_scaling.h>
#include <lockstep/train/served/served_tables.h>

#include <fmt/format.h>
#include <torch/torch.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace lockstep::train {
namespace {

std::vector<std::size_t> owners_of(const ParameterShards& shards) {
  std::vector<std::size_t> owners;
  for (std::size_t i = 0; i < shards.pieces().size(); ++i) owners.push_back(shards.owner(i));
  return owners;
}

/// The combined information of all ranks about the state of all parameters: "<parameter>.<field>" -> dtype as in
/// safetensors, and "<parameter>.step" -> a number. A collective.
nlohmann::json agree_on_fields(const NamedTensors& of_pieces, const ParameterShards& shards,
                               const NamedParameters& parameters) {
  auto fields = nlohmann::json::object();
  for (const auto& [key, tensor] : of_pieces) {
    const auto dot = key.find('.');
    const auto piece = static_cast<std::size_t>(parse_integer(key.substr(0, dot)).value());
    const auto field = key.substr(dot + 1);
    const auto name = fmt::format("{}.{}", parameters[shards.owner(piece)].first, field);
    if (field == kRememberedStep) {
      fields[name] = tensor.item<std::int64_t>();
    } else {
      fields[name] = safetensors_dtype(name, tensor);
    }
  }
  auto all = nlohmann::json::object();
  for (const auto& text : gather_texts(fields.dump(), shards.group())) all.update(nlohmann::json::parse(text));
  return all;
}

/// The boxes of a parameter that each rank updates. Pieces that follow one another are one run of its memory.
Holders holders_of(const std::vector<std::vector<ParameterShards::Stretch>>& by_rank, std::size_t number,
                   const at::Tensor& parameter) {
  Holders holders;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    std::int64_t begin = 0, elements = 0;
    for (const auto& stretch : by_rank[rank]) {
      if (stretch.parameter != number) continue;
      if (elements == 0) begin = stretch.begin;
      elements += stretch.elements;
    }
    for (const auto& box : boxes_of_run(parameter.sizes().vec(), parameter.strides().vec(), begin, elements)) {
      holders[box].push_back(static_cast<int>(rank));
    }
  }
  return holders;
}

void add_sharded_state(SavedState& saved, const torch::optim::Optimizer& optimizer, const ParameterShards& shards,
                       const NamedParameters& parameters) {
  const auto of_pieces = optimizer_state(optimizer, named_by_number(shards.pieces()));
  const auto fields = agree_on_fields(of_pieces, shards, parameters);
  std::vector<std::vector<ParameterShards::Stretch>> by_rank;
  for (int rank = 0; rank < shards.group().size(); ++rank) by_rank.push_back(shards.stretches_of(rank));
  const auto& stretches = by_rank[static_cast<std::size_t>(shards.group().rank())];
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, parameter] = parameters[i];
    std::optional<Holders> holders;
    for (const auto& field : remembered_tensors(optimizer)) {
      const auto dtype = fields.find(fmt::format("{}.{}", name, field));
      if (dtype == fields.end()) continue;
      if (!holders) holders = holders_of(by_rank, i, parameter);
      TensorInParts tensor{.dtype = *dtype, .shape = parameter.sizes().vec(), .holders = *holders, .own = {}};
      for (std::size_t piece = 0; piece < stretches.size(); ++piece) {
        if (stretches[piece].parameter != i) continue;
        for (auto& part : parts_of_run(of_pieces.at(fmt::format("{}.{}", piece, field)), parameter, stretches[piece])) {
          tensor.own.push_back(std::move(part));
        }
      }
      saved.in_parts.emplace(fmt::format("optimizer.{}.{}", name, field), std::move(tensor));
    }
    const auto step = fields.find(fmt::format("{}.{}", name, kRememberedStep));
    if (step == fields.end()) continue;
    saved.tensors.emplace(fmt::format("optimizer.{}.{}", name, kRememberedStep),
                          torch::scalar_tensor(step->get<std::int64_t>(), torch::kLong));
  }
}

/// Error(data) for tensors that belong to no parameter of the optimizer, or that have another shape.
void require_places(const NamedTensors& outline, const torch::optim::Optimizer& optimizer,
                    const NamedParameters& parameters) {
  auto left = outline;
  for (const auto& [name, parameter] : parameters) {
    for (const auto& field : remembered_tensors(optimizer)) {
      const auto saved = left.extract(fmt::format("{}.{}", name, field));
      if (saved.empty() || saved.mapped().sizes() == parameter.sizes()) continue;
      fail(ErrorKind::data, "optimizer state", "{} has {} elements in the checkpoint, the model's parameter needs {}",
           saved.key(), saved.mapped().numel(), parameter.numel());
    }
    left.erase(fmt::format("{}.{}", name, kRememberedStep));
  }
  if (left.empty()) return;
  fail(ErrorKind::data, "optimizer state",
       "the checkpoint holds {} which this optimizer has no place for; resume with the model and optimizer that wrote "
       "it",
       left.begin()->first);
}

}  // namespace

Updater::Updater(const ResolvedRun& run, const DataParallel& parallel, bool sharded, bool recovers)
    : parameters_(trainable_parameters(parallel.module())) {
  if (sharded) shards_.emplace(parallel);
  optimizer_ = sharded ? make_optimizer(run, parameters_, shards_->pieces(), owners_of(*shards_))
                       : make_optimizer(run, parameters_);
  if (sharded && recovers && parallel.group().size() > 1) backup_.emplace(run, *shards_, *optimizer_, parameters_);
}

Updater::~Updater() = default;

void Updater::step(double lr, double clip_norm, const std::function<void(StepPoint)>& at) {
  if (clip_norm > 0) clip_gradients(tensors_of(parameters_), clip_norm);
  set_learning_rate(*optimizer_, lr);
  if (shards_) shards_->take_gradients();
  if (backup_) backup_->before_update();
  if (at) at(StepPoint::before_update);
  update(*optimizer_);
  if (backup_) backup_->update(lr);
  if (shards_) shards_->share();
  if (backup_) backup_->shared();
  if (at) at(StepPoint::after_update);
}

void Updater::take_rate(double lr) { set_learning_rate(*optimizer_, lr); }

std::optional<KeptParts> Updater::take_parts() { return backup_ ? std::optional(backup_->take_parts()) : std::nullopt; }

NamedTensors Updater::state() const { return shards_ ? NamedTensors() : optimizer_state(*optimizer_, parameters_); }

void Updater::add_state(SavedState& saved) const {
  if (shards_) {
    add_sharded_state(saved, *optimizer_, *shards_, parameters_);
  } else {
    add_part(saved.tensors, "optimizer", state());
  }
}

void Updater::load(StateSource& source, const NamedTensors& outline) {
  if (shards_) {
    require_places(outline, *optimizer_, parameters_);
    const auto stretches = shards_->stretches_of(shards_->group().rank());
    load_optimizer_state(*optimizer_, named_by_number(shards_->pieces()),
                         read_stretches(source, outline, *optimizer_, parameters_, stretches));
    if (backup_) backup_->load(source, outline);
    return;
  }
  NamedTensors whole;
  for (const auto& [name, tensor] : outline) whole.emplace(name, source.read("optimizer." + name));
  load_optimizer_state(*optimizer_, parameters_, whole);
}

std::optional<std::string> why_not_recorded(const ResolvedRun& config, const torch::nn::Module& module) {
  if (is_served_mode(config.parallel)) return "a part of each step is on parameter servers";
  if (config.parallel.shard_optimizer) return "parallel.shard_optimizer divides the update";
  if (config.train.accumulate > 1) return "train.accumulate has several batches in a step";
  if (config.train.clip_norm > 0) return "train.clip_norm reads the norm of gradients on the host";
  if (config.loss_scaler.type != "none") return "loss_scaler reads the gradients on the host";
  if (!mirrored::sparse_tables(module).empty()) return "the model has sparse gradients";
  return std::nullopt;
}

RecordedStep::RecordedStep(const Model& model, const DataParallel& parallel, Updater& updater, ForwardOptions forward)
    : model_(model),
      updater_(updater),
      forward_(std::move(forward)),
      step_(parallel, updater.whole_optimizer(), [this](const auto& inputs) { return loss_of(inputs); }) {}

at::Tensor RecordedStep::loss_of(const std::vector<at::Tensor>& inputs) const {
  auto batch = batch_;
  auto input = inputs.begin();
  for (auto& [name, tensor] : batch.tensors) tensor = *input++;
  return train::forward(model_, std::move(batch), forward_, /*measures=*/false).outcome.loss;
}

at::Tensor RecordedStep::launch() {
  std::vector<at::Tensor> inputs;
  for (const auto& [name, tensor] : batch_.tensors) inputs.push_back(tensor);
  if (batch_.lists.empty() && batch_.texts.empty()) return step_.run(inputs);
  why_not_ = "the data has lists or texts, and a graph cannot follow their changes";
  model_.module->zero_grad(/*set_to_none=*/true);
  const auto loss = loss_of(inputs);
  loss.backward();
  lockstep::update(updater_.whole_optimizer());
  return loss.detach();
}

at::Tensor RecordedStep::forward(samples::Batch batch, const StepRequest&, bool /*last*/, StepSums&) {
  batch_ = std::move(batch);
  return {};
}

void RecordedStep::backward(const at::Tensor&, const StepRequest& request, bool /*last*/,
                            const std::function<void()>& sending) {
  if (sending) sending();
  updater_.take_rate(request.lr);
  loss_ = launch();
}

StepLosses RecordedStep::reduce(StepSums&, const StepRequest& request) {
  std::optional<double> loss;
  if (request.want_losses || request.want_global_loss || ++ahead_ == kMostAhead) {
    loss = loss_.item<double>();
    ahead_ = 0;
    require_finite(*loss, request, /*rank=*/0);
  }
  return {.local = loss, .global = loss, .agreed = request.votes ? request.votes() : StepVotes()};
}

void RecordedStep::update(double /*lr*/, const std::function<void(StepPoint)>& at) {
  at(StepPoint::before_update);
  at(StepPoint::after_update);
}

}  // namespace lockstep::train
