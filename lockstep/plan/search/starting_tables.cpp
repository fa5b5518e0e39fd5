#include <lockstep/plan/cost/work.h>
#include <lockstep/plan/search/starting_tables.h>

namespace lockstep::plan {
namespace {

/// A table with a row for each possible placement of a value.
template <typename CostOf>
Table table_of_one(const Version& version, std::size_t ways, const CostOf& cost_of) {
  Table table;
  if (version.variable) table.variables = {*version.variable};
  for (std::size_t way = 0; way < ways; ++way) {
    if (version.variable) table.values.push_back(static_cast<std::uint16_t>(way));
    table.costs.push_back(cost_of(way));
  }
  return table;
}

}  // namespace

Table memory_table(const Program& program, std::size_t parameter, const Version& version,
                   const std::vector<Placements>& options, std::span<const int> mesh_sizes) {
  const auto& own = program.values[parameter];
  double copies = own.times;
  for (const auto& item : program.values) {
    if (item.parameter == parameter && item.info.sizes == own.info.sizes) copies += own.times;
  }
  return table_of_one(version, options.size(), [&](std::size_t option) {
    return copies * bytes_of_part(own.info, options[option], mesh_sizes).value;
  });
}

std::vector<Placements> input_options(const Space& space) {
  const std::size_t axes = space.mesh_sizes.size();
  std::vector<Placements> options;
  for (std::size_t mask = 0; mask < (std::size_t{1} << axes); ++mask) {
    Placements lies(axes);
    for (std::size_t axis = 0; axis < axes; ++axis) {
      if (((mask >> axis) & 1) != 0) lies[axis] = Shard(0);
    }
    if (!space.fixed_inputs || mask == 0) options.push_back(std::move(lies));
  }
  return options;
}

Table loading_table(const TensorInfo& input, const Version& version, const Decisions& decisions) {
  return table_of_one(version, version.as.size(), [&](std::size_t option) {
    const auto part = bytes_of_part(input, decisions.placements(version.as[option]), decisions.mesh_sizes());
    return decisions.model().compute(loading_of(part)).value;
  });
}

}  // namespace lockstep::plan
