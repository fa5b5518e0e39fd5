// The well-known layouts: data parallel, zero, wide, and Megatron.
#include <lockstep/plan/cost/cost_model.h>
#include <lockstep/plan/search/space.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace lockstep::plan {
namespace {

bool is_product(std::string_view op) {
  constexpr std::array<std::string_view, 6> kProducts{"mm", "addmm", "matmul", "bmm", "baddbmm", "tensordot"};
  return std::find(kProducts.begin(), kProducts.end(), op) != kProducts.end();
}

/// Follows the placements of activations in the forward phase on one axis. A parameter and its views are undecided
/// until a product uses them.
class FollowActivations {
 public:
  FollowActivations(const Program& program, int ranks)
      : program_(program),
        decisions_(program, {ranks},
                   {.compute = [](const Work&) { return Seconds{}; },
                    .collective = [](Collective, std::size_t, Bytes bytes) { return Seconds{bytes.value}; }}),
        ranks_(ranks),
        placed_(program.values.size(), kReplicated),
        choice_(program.values.size()) {
    for (const auto parameter : program.parameters) undecided_[parameter] = parameter;
    for (std::size_t at = 0; at < program.steps.size() && program.steps[at].phase == Phase::forward; ++at) step(at);
  }

  std::vector<Placement> result() const {
    std::vector<Placement> along;
    for (const auto parameter : program_.parameters) along.push_back(choice_[parameter].value_or(Replicate()));
    return along;
  }

 private:
  void step(std::size_t at) {
    const auto& now = program_.steps[at];
    const auto& op = program_.operators[now.op];
    if (op.view && !now.inputs.empty() && undecided_.count(now.inputs[0]) != 0) {
      const auto parameter = undecided_.at(now.inputs[0]);
      waiting_[parameter].push_back(at);
      for (const auto output : now.outputs) undecided_[output] = parameter;
      return;
    }
    // Matrices first: the placement of a bias follows from the matrix of its module.
    for (const bool matrices : {true, false}) {
      for (const auto input : now.inputs) {
        const auto found = input == kNoValue ? undecided_.end() : undecided_.find(input);
        if (found == undecided_.end()) continue;
        const auto parameter = found->second;
        const bool matrix = program_.values[parameter].info.dim() > 1;
        if (matrix == matrices) settle(parameter, matrix ? best_for(parameter, at) : beside_matrix(parameter));
      }
    }
    run(at);
  }

  bool may(std::size_t parameter, std::int64_t dim) const {
    const auto& info = program_.values[parameter].info;
    return dim < info.dim() && divides_well(info, {Shard(dim)}, std::array{ranks_});
  }

  Placement best_for(std::size_t parameter, std::size_t at) {
    const auto& op = program_.operators[program_.steps[at].op].call.name;
    if (op == "embedding") return may(parameter, 0) ? Shard(0) : Replicate();
    if (!is_product(op)) return Replicate();
    Placement best = Replicate();
    double least = -1;
    const auto before = placed_;
    for (const std::int64_t dim : {0, 1}) {
      if (!may(parameter, dim)) continue;
      place(parameter, Shard(dim));
      const auto& decision = run(at);
      const bool partial = decisions_.placements(decision.outputs[0])[0].is_partial();
      const bool whole = decisions_.placements(decision.outputs[0])[0].is_replicate();
      const double cost = decision.redistribution.value + (partial ? 0.5 : 0) + (whole ? 1 : 0);
      placed_ = before;
      if (least < 0 || cost < least) {
        least = cost;
        best = Shard(dim);
      }
    }
    return best;
  }

  Placement beside_matrix(std::size_t parameter) {
    const auto& item = program_.values[parameter];
    for (const auto other : program_.parameters) {
      const auto& matrix = program_.values[other];
      if (matrix.module != item.module || matrix.info.dim() < 2 || item.info.dim() != 1) continue;
      const bool divided = choice_[other] && choice_[other]->is_shard(0) && matrix.info.sizes[0] == item.info.sizes[0];
      return divided ? Shard(0) : Replicate();
    }
    return Replicate();
  }

  /// Sets the placement of a parameter and its views, before it is decided.
  void place(std::size_t parameter, const Placement& placement) {
    placed_[parameter] = decisions_.number({placement});
    for (const auto at : waiting_[parameter]) run(at);
  }

  void settle(std::size_t parameter, const Placement& placement) {
    choice_[parameter] = placement;
    place(parameter, placement);
    std::erase_if(undecided_, [&](const auto& each) { return each.second == parameter; });
  }

  const Decision& run(std::size_t at) {
    const auto& now = program_.steps[at];
    std::vector<PlacedAs> inputs;
    for (const auto input : now.inputs) inputs.push_back(input == kNoValue ? kReplicated : placed_[input]);
    const auto& decision = decisions_.decide(now.op, inputs, std::vector<PlacedAs>(now.outputs.size(), kNotWanted));
    for (std::size_t i = 0; i < now.inputs.size(); ++i) {
      if (now.inputs[i] != kNoValue) placed_[now.inputs[i]] = decision.inputs[i];
    }
    for (std::size_t i = 0; i < now.outputs.size(); ++i) {
      if (now.outputs[i] != kNoValue) placed_[now.outputs[i]] = decision.outputs[i];
    }
    return decision;
  }

  const Program& program_;
  Decisions decisions_;
  int ranks_;
  std::vector<PlacedAs> placed_;
  std::vector<std::optional<Placement>> choice_;
  std::unordered_map<std::size_t, std::size_t> undecided_;             ///< parameters and views of them
  std::unordered_map<std::size_t, std::vector<std::size_t>> waiting_;  ///< steps that make these views
};

/// The best dimension to shard: the largest possible one.
std::optional<Placement> largest_dim(const TensorInfo& info, const Placements& now, std::size_t axis,
                                     std::span<const int> mesh_sizes) {
  std::optional<Placement> best;
  for (std::int64_t dim = 0; dim < std::min<std::int64_t>(info.dim(), 2); ++dim) {
    Placements tried = now;
    tried[axis] = Shard(dim);
    const auto size = info.sizes[static_cast<std::size_t>(dim)];
    if (divides_well(info, tried, mesh_sizes) && (!best || size > info.sizes[static_cast<std::size_t>(best->dim)]))
      best = Shard(dim);
  }
  return best;
}

/// The weights of products that are larger than the activations they are multiplied with, and their biases.
std::vector<bool> wide_layers(const Program& program) {
  std::vector<std::size_t> matrix_of(program.values.size(), kNoValue);
  for (const auto parameter : program.parameters) matrix_of[parameter] = parameter;
  std::vector<bool> wide_module(program.modules.size());
  for (const auto& step : program.steps) {
    if (step.phase != Phase::forward) break;
    const auto& op = program.operators[step.op];
    if (op.view && !step.inputs.empty() && step.inputs[0] != kNoValue) {
      for (const auto output : step.outputs) matrix_of[output] = matrix_of[step.inputs[0]];
    }
    if (!is_product(op.call.name)) continue;
    for (const auto input : step.inputs) {
      const auto weight = input == kNoValue ? kNoValue : matrix_of[input];
      if (weight == kNoValue || program.values[weight].info.dim() < 2) continue;
      double activations = program.values[step.outputs[0]].info.bytes();
      for (const auto other : step.inputs) {
        if (other != input && other != kNoValue) activations += program.values[other].info.bytes();
      }
      if (program.values[weight].info.bytes() > activations) wide_module[program.values[weight].module] = true;
    }
  }
  std::vector<bool> wide;
  for (const auto parameter : program.parameters) wide.push_back(wide_module[program.values[parameter].module]);
  return wide;
}

}  // namespace

std::vector<Placement> megatron_axis(const Program& program, int ranks) {
  return FollowActivations(program, ranks).result();
}

Assignment laid_out(const Program& program, const Space& space, Decisions& decisions, std::span<const AxisUse> uses,
                    std::span<const std::vector<Placement>> along_model) {
  auto assignment = start_of(program, space, decisions);
  const std::size_t axes = space.mesh_sizes.size();
  Placements inputs(axes);
  for (std::size_t axis = 0; axis < axes; ++axis) {
    if (uses[axis] != AxisUse::model) inputs[axis] = Shard(0);
  }
  place_inputs(program, space, inputs, decisions, assignment);
  const auto wide =
      std::find(uses.begin(), uses.end(), AxisUse::wide) == uses.end() ? std::vector<bool>() : wide_layers(program);
  for (std::size_t i = 0; i < program.parameters.size(); ++i) {
    const auto& info = program.values[program.parameters[i]].info;
    Placements lies(axes);
    const auto try_on = [&](std::size_t axis, const Placement& placement) {
      Placements tried = lies;
      tried[axis] = placement;
      if (divides_well(info, tried, space.mesh_sizes)) lies = std::move(tried);
    };
    // First the uses that follow the model; then the uses that only save memory shard the remaining dimensions.
    for (std::size_t axis = 0; axis < axes; ++axis) {
      if (uses[axis] == AxisUse::model) try_on(axis, along_model[axis][i]);
      if (uses[axis] == AxisUse::wide && wide[i]) try_on(axis, Shard(0));
    }
    for (std::size_t axis = 0; axis < axes; ++axis) {
      if (uses[axis] != AxisUse::zero) continue;
      if (const auto dim = largest_dim(info, lies, axis, space.mesh_sizes)) lies[axis] = *dim;
    }
    place_parameter(program, space, i, lies, decisions, assignment);
  }
  return assignment;
}

}  // namespace lockstep::plan
