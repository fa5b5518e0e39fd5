// Parameters moved into flat arenas, of which each rank updates its shard; an all_gather shares the updates.
#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/observe.h>
#include <lockstep/comm/operator_trace.h>
#include <lockstep/mirrored/data_parallel.h>
#include <lockstep/mirrored/flat_memory.h>
#include <lockstep/mirrored/parameter_layout.h>
#include <lockstep/mirrored/replica.h>

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

namespace lockstep {

using mirrored::ShardPlan;

struct ParameterShards::State {
  Group group;
  std::vector<std::string> names{};      ///< by parameter
  std::vector<at::Tensor> parameters{};  ///< in the module's order
  ShardPlan plan{};
  std::vector<at::Tensor> arenas{};  ///< the memory of the parameters
  std::vector<at::Tensor> pieces{};
};

namespace {

constexpr std::string_view kShardsPlace = "parameter_shards";

std::vector<mirrored::GradientSize> sizes_of(const std::vector<at::Tensor>& parameters) {
  std::vector<mirrored::GradientSize> sizes;
  for (const auto& each : parameters) {
    sizes.push_back(
        {each.numel(), static_cast<std::int64_t>(each.element_size()), static_cast<int>(each.scalar_type())});
  }
  return sizes;
}

at::Tensor shard_of(const at::Tensor& arena, const Group& group) {
  const std::int64_t elements = arena.numel() / group.size();
  return arena.narrow(0, group.rank() * elements, elements);
}

void share_arena(at::Tensor& arena, const Group& group) {
  if (group.size() == 1) return;
  const CallPlace place(name_place(group, "the updated parameters"));
  all_gather_async(arena, shard_of(arena, group), group).wait();
}

/// Moves parameters into memory of the group, which the other ranks can read without a copy.
void move_parameters(const ShardPlan& plan, const Group& group, std::vector<at::Tensor>& parameters,
                     std::vector<at::Tensor>& arenas) {
  for (const auto& arena : plan.arenas) {
    const auto elements = arena.shard_elements * group.size();
    arenas.push_back(mirrored::group_memory(group, elements, arena.dtype, parameters.front()));
    arenas.back().zero_();
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [arena, offset] = plan.places[i];
    const at::Tensor moved = mirrored::tensor_in(arenas[arena], offset, parameters[i]);
    moved.copy_(parameters[i]);
    parameters[i].set_data(moved);
  }
}

// On a device a kernel for each small piece would cost more than the cache saves.
ShardPlan plan_of(const std::vector<at::Tensor>& parameters, int rank, int ranks) {
  const bool on_cpu = parameters.empty() || parameters.front().is_cpu();
  return mirrored::plan_shards(sizes_of(parameters), rank, ranks,
                               on_cpu ? mirrored::kPieceBytes : std::numeric_limits<std::int64_t>::max());
}

/// Error(invalid_argument) if the program replaced a parameter's memory, which is then not in the arena: updates would
/// silently not reach the model.
void require_in_arenas(const std::vector<at::Tensor>& parameters, const std::vector<std::string>& names,
                       const ShardPlan& plan, const std::vector<at::Tensor>& arenas) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [arena, offset] = plan.places[i];
    const at::Tensor& memory = arenas[arena];
    if (parameters[i].storage().is_alias_of(memory.storage()) &&
        parameters[i].storage_offset() == memory.storage_offset() + offset) {
      continue;
    }
    fail(
        ErrorKind::invalid_argument, kShardsPlace,
        "the memory of parameter \"{}\" was replaced after the optimizer took it in shards; give the module its dtype, "
        "device and memory format (to(), to_channels_last()) before, and copy numbers into parameters instead of "
        "setting their data",
        names[i]);
  }
}

}  // namespace

ParameterShards::ParameterShards(const DataParallel& parallel)
    : state_(std::make_unique<State>(State{parallel.group()})) {
  torch::NoGradGuard no_grad;
  State& s = *state_;
  for (auto& each : mirrored::replica_of(parallel.module()).parameters) {
    if (!each.tensor.requires_grad()) continue;
    s.names.push_back(std::move(each.name));
    s.parameters.push_back(std::move(each.tensor));
  }
  s.plan = plan_of(s.parameters, s.group.rank(), s.group.size());
  move_parameters(s.plan, s.group, s.parameters, s.arenas);
  for (const auto& piece : s.plan.pieces) {
    s.pieces.push_back(mirrored::stretch_of(s.parameters[piece.parameter], piece.begin, piece.elements));
  }
}

ParameterShards::~ParameterShards() = default;
ParameterShards::ParameterShards(ParameterShards&&) noexcept = default;
ParameterShards& ParameterShards::operator=(ParameterShards&&) noexcept = default;

const std::vector<at::Tensor>& ParameterShards::pieces() const { return state_->pieces; }
const std::vector<at::Tensor>& ParameterShards::parameters() const { return state_->parameters; }
std::size_t ParameterShards::owner(std::size_t piece) const { return state_->plan.pieces.at(piece).parameter; }

std::vector<ParameterShards::Stretch> ParameterShards::stretches_of(int rank) const {
  std::vector<Stretch> stretches;
  for (const auto& piece : plan_of(state_->parameters, rank, state_->group.size()).pieces) {
    stretches.push_back({piece.parameter, piece.begin, piece.elements});
  }
  return stretches;
}

const Group& ParameterShards::group() const { return state_->group; }

std::vector<at::Tensor> ParameterShards::pieces_of(const std::vector<at::Tensor>& parameters) const {
  std::vector<at::Tensor> found;
  for (std::size_t i = 0; i < state_->pieces.size(); ++i) {
    const at::Tensor& owner = state_->parameters[state_->plan.pieces[i].parameter];
    if (std::any_of(parameters.begin(), parameters.end(), [&](auto& each) { return each.is_same(owner); })) {
      found.push_back(state_->pieces[i]);
    }
  }
  return found;
}

void ParameterShards::zero_gradients(bool set_to_none) {
  for (auto& parameter : state_->parameters) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (!gradient.defined()) continue;
    if (set_to_none) {
      gradient.reset();
    } else {
      gradient.detach_().zero_();
    }
  }
}

void ParameterShards::take_gradients() {
  torch::NoGradGuard no_grad;
  const State& s = *state_;
  require_in_arenas(s.parameters, s.names, s.plan, s.arenas);
  at::Tensor gradient;
  for (std::size_t i = 0; i < s.pieces.size(); ++i) {
    const auto& piece = s.plan.pieces[i];
    if (piece.begin == 0 || i == 0 || s.plan.pieces[i - 1].parameter != piece.parameter) {
      gradient = s.parameters[piece.parameter].grad();
      if (gradient.defined()) {
        if (gradient.layout() != at::kStrided) {
          fail(ErrorKind::unsupported, kShardsPlace, "parameter \"{}\" has a sparse gradient; use its dense form",
               s.names[piece.parameter]);
        }
        gradient = mirrored::laid_out_as(gradient, s.parameters[piece.parameter]);
      }
    }
    at::Tensor part;
    if (gradient.defined()) part = mirrored::stretch_of(gradient, piece.begin, piece.elements);
    s.pieces[i].mutable_grad() = std::move(part);
  }
}

void ParameterShards::share() {
  torch::NoGradGuard no_grad;
  // The program may now remove gradients to free their memory.
  for (const auto& piece : state_->pieces) piece.mutable_grad().reset();
  for (auto& arena : state_->arenas) share_arena(arena, state_->group);
}

std::vector<at::Tensor> ParameterShards::whole(const std::vector<at::Tensor>& of_pieces) const {
  torch::NoGradGuard no_grad;
  const State& s = *state_;
  const auto count = static_cast<std::int64_t>(s.parameters.size());
  at::Tensor has = torch::zeros({count}, torch::kInt);
  std::vector<at::Tensor> arenas;
  for (const auto& arena : s.arenas) arenas.push_back(at::zeros_like(arena));
  for (std::size_t i = 0; i < of_pieces.size(); ++i) {
    if (!of_pieces[i].defined()) continue;
    const auto& piece = s.plan.pieces[i];
    const auto& [arena, offset] = s.plan.places[piece.parameter];
    arenas[arena].narrow(0, offset + piece.begin, piece.elements).copy_(of_pieces[i]);
    has[static_cast<std::int64_t>(piece.parameter)].fill_(1);
  }
  if (s.group.size() > 1) all_reduce(has, s.group, ReduceOp::max);
  for (auto& arena : arenas) share_arena(arena, s.group);
  std::vector<at::Tensor> out(s.parameters.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (has[static_cast<std::int64_t>(i)].item<int>() == 0) continue;
    out[i] = mirrored::tensor_in(arenas[s.plan.places[i].arena], s.plan.places[i].offset, s.parameters[i]);
  }
  return out;
}

std::vector<at::Tensor> ParameterShards::parts(const std::vector<at::Tensor>& of_parameters) const {
  torch::NoGradGuard no_grad;
  std::vector<at::Tensor> out;
  for (const auto& piece : state_->plan.pieces) {
    const at::Tensor& whole = of_parameters.at(piece.parameter);
    at::Tensor part;
    if (whole.defined()) {
      const auto ordered = mirrored::laid_out_as(whole, state_->parameters[piece.parameter]);
      part = mirrored::stretch_of(ordered, piece.begin, piece.elements).clone();
    }
    out.push_back(std::move(part));
  }
  return out;
}

}  // namespace lockstep
