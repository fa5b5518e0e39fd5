#include <lockstep/plan/search/divide_batch.h>

#include <algorithm>

namespace lockstep::plan {
namespace {

constexpr double kNextToNothing = 1e-3;

/// The placements of a batch that is sharded along the axes whose bits are set.
Placements divided_along(std::size_t mask, std::size_t axes) {
  Placements inputs(axes);
  for (std::size_t axis = 0; axis < axes; ++axis) {
    if (((mask >> axis) & 1) != 0) inputs[axis] = Shard(0);
  }
  return inputs;
}

bool divides_more(const Placements& inputs, const Placements& now) {
  for (std::size_t axis = 0; axis < inputs.size(); ++axis) {
    if (now[axis].is_shard() && !inputs[axis].is_shard()) return false;
  }
  return inputs != now;
}

}  // namespace

void divide_batch(const Task& task, Candidate& best, Seconds at_most) {
  OnMesh& mesh = *best.mesh;
  const std::size_t axes = mesh.space.mesh_sizes.size();
  if (mesh.space.fixed_inputs) return;
  const auto now = inputs_of(task, best);
  for (std::size_t mask = (std::size_t{1} << axes) - 1; mask > 0; --mask) {
    const auto inputs = divided_along(mask, axes);
    if (!divides_more(inputs, now)) continue;
    Candidate tried = best;
    place_inputs(task.folded.program, mesh.space, inputs, mesh.decisions, tried.assignment);
    tried.folded_cost = simulate(task.folded.program, mesh.decisions, tried.assignment).cost;
    if (tried.folded_cost > (1 + kNextToNothing) * best.folded_cost) continue;
    predict_whole(task, tried);
    if (tried.score.missing > Bytes{}) continue;
    if (tried.score.cost > std::min(at_most, (1 + kNextToNothing) * best.score.cost)) continue;
    best = std::move(tried);
    return;
  }
}

}  // namespace lockstep::plan
