#include <lockstep/plan/search/versions.h>

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

}  // namespace lockstep::plan
