// A ring exchange of module buffers packed as bytes, in each step: send to the next rank, receive from the previous.
// And for optimizer shards: stretches of memory to boxes of parameters, names by piece to names by place, reads from a
// source, and a second optimizer over copies of the previous rank's pieces, updated with the same gradients.
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/mirrored/flat_memory.h>
#include <lockstep/train/modes/rank_copies.h>

#include <fmt/format.h>
#include <torch/torch.h>

#include <utility>

namespace lockstep::train {
namespace {

constexpr int kTag = 1;

at::Tensor bytes_of(const at::Tensor& tensor) { return tensor.contiguous().view({-1}).view(at::kByte); }

}  // namespace

BufferRing::BufferRing(std::shared_ptr<torch::nn::Module> module, const Group& group)
    : module_(std::move(module)), group_(group) {
  copy_ = pack();
}

at::Tensor BufferRing::pack() const {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> parts;
  for (const auto& buffer : module_->buffers()) parts.push_back(bytes_of(buffer));
  return torch::cat(parts);
}

void BufferRing::load(StateSource& state) {
  const torch::NoGradGuard no_grad;
  const auto own_key = buffers_key(group_.rank()), copy_key = buffers_key(rank_before(group_));
  if (!state.outline().contains(own_key) || !state.outline().contains(copy_key)) return;
  const auto own = state.read(own_key);
  std::int64_t offset = 0;
  for (auto& buffer : module_->buffers()) {
    const auto bytes = static_cast<std::int64_t>(buffer.nbytes());
    // A copy, as its place among the bytes need not be aligned.
    const auto part = own.narrow(0, offset, bytes).clone();
    buffer.copy_(part.view(buffer.scalar_type()).view(buffer.sizes()));
    offset += bytes;
  }
  copy_ = state.read(copy_key).clone();
}

void BufferRing::begin_step() {
  before_ = pack();
  in_step_ = true;
  started_ = finished_ = false;
}

void BufferRing::start() {
  sent_ = pack();
  received_ = torch::empty_like(sent_);
  receiving_ = receive_async(received_, group_, rank_before(group_), kTag);
  sending_ = send_async(sent_, group_, (group_.rank() + 1) % group_.size(), kTag);
  started_ = true;
}

void BufferRing::finish() {
  if (!started_ || finished_) return;
  receiving_.wait();
  sending_.wait();
  finished_ = true;
}

void BufferRing::end_step() {
  copy_ = received_;
  in_step_ = false;
}

void BufferRing::synchronized() { copy_ = pack(); }

void BufferRing::add_to(KeptParts& kept) const {
  kept.last.own[kOwnBuffers] = in_step_ ? before_ : pack();
  kept.last.copy[kOwnBuffers] = copy_;
  if (!in_step_ || !finished_) return;
  // Parts of the next step exist only if the sharded optimizer also has its part of that step.
  if (!kept.divided.empty() && !kept.next) return;
  if (!kept.next) kept.next.emplace();
  kept.next->own[kOwnBuffers] = sent_;
  kept.next->copy[kOwnBuffers] = received_;
}

namespace {

constexpr std::string_view kParameter = "parameter";

/// "12.momentum_buffer" belongs to piece 12.
std::pair<std::size_t, std::string> split_name(const std::string& name) {
  const auto dot = name.find('.');
  const auto piece = parse_integer(name.substr(0, dot));
  if (dot == std::string::npos || !piece) fail(ErrorKind::data, "recovery", "no part of a state has a {}", name);
  return {static_cast<std::size_t>(*piece), name.substr(dot + 1)};
}

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

/// The state of one rank's pieces and optimizer, "<piece>.parameter" and as optimizer_state: sharing memory.
NamedTensors shard_state(const std::vector<at::Tensor>& pieces, const torch::optim::Optimizer& optimizer) {
  const auto named = named_by_number(pieces);
  auto state = optimizer_state(optimizer, named);
  for (const auto& [name, piece] : named) state.emplace(fmt::format("{}.{}", name, kParameter), piece.detach());
  return state;
}

/// The same under the names of kept_state.h: "<begin>.model.<parameter>", "<begin>.optimizer.<parameter>.<field>". The
/// pieces are those of `stretches`.
NamedTensors named_by_place(const NamedTensors& shard, const std::vector<ParameterShards::Stretch>& stretches,
                            const NamedParameters& parameters) {
  NamedTensors out;
  for (const auto& [name, tensor] : shard) {
    const auto [piece, field] = split_name(name);
    const auto& stretch = stretches.at(piece);
    const auto& parameter = parameters.at(stretch.parameter).first;
    out.emplace(field == kParameter ? fmt::format("{}.model.{}", stretch.begin, parameter)
                                    : fmt::format("{}.optimizer.{}.{}", stretch.begin, parameter, field),
                tensor);
  }
  return out;
}

}  // namespace

NamedTensors divided_tensors(const torch::optim::Optimizer& optimizer, const NamedParameters& parameters) {
  NamedTensors divided;
  const auto fields = remembered_tensors(optimizer);
  for (const auto& [name, parameter] : parameters) {
    const auto form = torch::empty_strided(parameter.sizes(), parameter.strides(),
                                           torch::TensorOptions(parameter.scalar_type()).device(torch::kMeta));
    divided.emplace("model." + name, form);
    for (const auto& field : fields) divided.emplace(fmt::format("optimizer.{}.{}", name, field), form);
  }
  return divided;
}

std::vector<HeldPart> parts_of_run(const at::Tensor& run, const at::Tensor& parameter,
                                   const ParameterShards::Stretch& stretch) {
  const auto sizes = parameter.sizes().vec(), strides = parameter.strides().vec();
  const auto order = memory_order(sizes, strides);
  BoxSizes place(order.size());  // of each dimension in that order
  for (std::size_t i = 0; i < order.size(); ++i)
    place[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  std::vector<HeldPart> parts;
  std::int64_t begin = 0;
  for (auto& box : boxes_of_run(sizes, strides, stretch.begin, stretch.elements)) {
    BoxSizes in_order;
    for (const auto dim : order) in_order.push_back(box.sizes[static_cast<std::size_t>(dim)]);
    auto values = run.narrow(0, begin, box.elements()).view(in_order).permute(place);
    begin += box.elements();
    parts.push_back({.box = std::move(box), .values = std::move(values)});
  }
  return parts;
}

NamedTensors read_stretches(StateSource& source, const NamedTensors& outline, const torch::optim::Optimizer& optimizer,
                            const NamedParameters& parameters, const std::vector<ParameterShards::Stretch>& stretches) {
  const torch::NoGradGuard no_grad;
  NamedTensors state;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const auto& [name, parameter] = parameters[stretches[i].parameter];
    for (const auto& field : remembered_tensors(optimizer)) {
      const auto saved = outline.find(fmt::format("{}.{}", name, field));
      if (saved == outline.end()) continue;
      const auto run = torch::empty({stretches[i].elements}, saved->second.scalar_type());
      for (auto& part : parts_of_run(run, parameter, stretches[i])) {
        source.read("optimizer." + saved->first, part.box, part.values);
      }
      state.emplace(fmt::format("{}.{}", i, field), run);
    }
    const auto step = fmt::format("{}.{}", name, kRememberedStep);
    if (outline.contains(step)) {
      state.emplace(fmt::format("{}.{}", i, kRememberedStep), source.read("optimizer." + step));
    }
  }
  return state;
}

ShardBackup::ShardBackup(const ResolvedRun& run, const ParameterShards& shards, const torch::optim::Optimizer& own,
                         const NamedParameters& parameters)
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
  optimizer_ = make_optimizer(run, parameters_, pieces_, owners);
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
