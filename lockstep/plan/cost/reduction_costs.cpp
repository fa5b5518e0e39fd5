#include <lockstep/plan/cost/reduction_costs.h>
#include <lockstep/plan/cost/work.h>

namespace lockstep::plan {

ReductionCosts reduction_costs(const Decisions& decisions, const TensorInfo& info, const Placements& from,
                               const Placements& to) {
  constexpr double kMany = 1e18;
  const auto sizes = decisions.mesh_sizes();
  const auto& model = decisions.model();
  ReductionCosts costs;
  Placements now = from;
  for (std::size_t axis = 0; axis < now.size(); ++axis) {
    if (!now[axis].is_partial() || to[axis].is_partial() || sizes[axis] == 1) continue;
    const bool scatters = to[axis].is_shard();
    const auto kind = scatters ? Collective::reduce_scatter : Collective::all_reduce;
    const auto bytes = bytes_of_part(info, now, sizes);
    costs.sending += model.collective(kind, axis, {kMany}).value / kMany * bytes.value;
    costs.copying_in += model.compute(copying_of(bytes)).value;
    if (scatters) costs.copying_out += model.compute(copying_of(bytes / sizes[axis])).value;
    now[axis] = to[axis];
  }
  return costs;
}

}  // namespace lockstep::plan
