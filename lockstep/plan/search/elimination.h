// The exact minimum of a sum of tables over many variables, by variable elimination. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep::plan {

/// The costs of the allowed combinations of values; combinations without a row are not allowed.
struct Table {
  std::vector<std::uint32_t> variables;  ///< distinct
  std::vector<std::uint16_t> values;     ///< the values in each row, one for each variable
  std::vector<double> costs;             ///< one for each row

  std::size_t rows() const { return costs.size(); }
};

struct LeastSum {
  double cost = 0;
  std::vector<std::uint16_t> values;  ///< value of each variable; 0 for variables that are in no table
};

/// The least sum; nullopt when no combination is allowed, or when tables would need more than `most_rows` rows.
/// Subtracts the used rows from `most_rows`. Each step of the elimination joins the tables of the variable with the
/// fewest neighbours, and keeps its best value for each combination of the others.
std::optional<LeastSum> least_sum(std::vector<Table> tables, std::size_t variables, std::size_t& most_rows);

}  // namespace lockstep::plan
