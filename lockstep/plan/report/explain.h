// The explanation of a plan for users, as text and as an HTML page, and the text forms of its quantities. Pure.
#pragma once

#include <lockstep/plan/plan.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::plan {

/// The text: the plan, its cost and the reasons, with the alternatives; lines of up to about 120 characters.
std::string explain(const Plan& plan);

/// The same as one self-contained page: no network, no scripts; for light and dark mode.
std::string plan_html(const Plan& plan, const std::string& title);

std::string shown(Seconds time);         ///< "12.3 ms"
std::string shown(Bytes bytes);          ///< "3.2 GB"
std::string shown_devices(int devices);  ///< "1 device"
std::string shown_mesh(const std::vector<int>& sizes,
                       const std::vector<std::string>& names = {});  ///< "data 2 x model 8"
std::string shown_short(const Placements& placements);               ///< "R,S0"

/// "weight R,S0  bias R,S0": names of parameters with their placements.
std::string shown_parameters(const std::vector<std::pair<std::string, Placements>>& parameters);

/// A sentence about the proven bound: how much faster a step could be at most.
std::string shown_proof(const Plan& plan);

/// Equal rows of repeated layers, combined into one.
struct RowGroup {
  std::string name;       ///< "blocks.*.fc1"
  std::size_t times = 1;  ///< number of modules that it represents
  ModuleRow row;          ///< sums over all of these modules
  std::string placement;  ///< "weight R,S0  bias R,S0"
};
std::vector<RowGroup> grouped_rows(const std::vector<ModuleRow>& rows);

}  // namespace lockstep::plan
