// Every way to lie, for tests that try all of them.
#pragma once

#include <lockstep/global/global_tensor.h>

#include <vector>

namespace lockstep::test {

/// Every choice of one of `each` for every one of `axes`.
inline std::vector<Placements> on_all_axes(const std::vector<Placement>& each, std::size_t axes) {
  std::vector<Placements> all{{}};
  for (std::size_t axis = 0; axis < axes; ++axis) {
    std::vector<Placements> longer;
    for (const auto& begun : all) {
      for (const auto& placement : each) {
        longer.push_back(begun);
        longer.back().push_back(placement);
      }
    }
    all = std::move(longer);
  }
  return all;
}

}  // namespace lockstep::test
