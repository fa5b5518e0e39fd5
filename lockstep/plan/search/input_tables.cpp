// Tables of what the placements of parameters and inputs cost by themselves, and iteration over placements.
#include <lockstep/plan/cost/cost_model.h>
#include <lockstep/plan/search/tables.h>

#include <algorithm>

namespace lockstep::plan {

void Variables::take(const Version& version) {
  if (have(version)) return;
  all.push_back(*version.variable);
  sizes.push_back(version.as.size());
}

bool Variables::have(const Version& version) const {
  return !version.variable || std::find(all.begin(), all.end(), *version.variable) != all.end();
}

PlacedAs Variables::look(const Version& version, std::span<const std::uint16_t> at) const {
  if (!version.variable) return version.as[0];
  return version.as[at[static_cast<std::size_t>(std::find(all.begin(), all.end(), *version.variable) - all.begin())]];
}

bool advance(std::vector<std::uint16_t>& at, const std::vector<std::size_t>& sizes) {
  for (std::size_t i = sizes.size(); i-- > 0;) {
    if (++at[i] < sizes[i]) return true;
    at[i] = 0;
  }
  return false;
}

std::vector<Placements> all_options(const TensorInfo& info, const std::vector<std::vector<Placement>>& by_axis,
                                    std::span<const int> mesh_sizes) {
  std::vector<Placements> options;
  std::vector<std::size_t> sizes;
  for (const auto& axis : by_axis) sizes.push_back(axis.size());
  std::vector<std::uint16_t> at(sizes.size());
  do {
    Placements lies;
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) lies.push_back(by_axis[axis][at[axis]]);
    if (may_lie(info, lies, mesh_sizes)) options.push_back(std::move(lies));
  } while (advance(at, sizes));
  return options;
}

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
    if (!space.fixed_inputs || mask == 0) options.push_back(divided_along(mask, axes));
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
