// The exact minimum of a sum of tables over many variables, by variable elimination. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep::plan {

/// Costs of the combinations of values that may occur; those that have no row may not.
struct Table {
  std::vector<std::uint32_t> variables;  ///< distinct
  std::vector<std::uint16_t> values;     ///< of each row, one for each variable
  std::vector<double> costs;             ///< one for each row

  std::size_t rows() const { return costs.size(); }
};

struct LeastSum {
  double cost = 0;
  std::vector<std::uint16_t> values;  ///< of each variable; 0 where no table has it
};

/// nullopt when no combination may occur, or when tables would need more than `most_rows` rows, which are taken from
/// it. Each step of the elimination joins the tables of one variable, the one with the fewest neighbours, and keeps the
/// best value of it for each combination of the others.
std::optional<LeastSum> least_sum(std::vector<Table> tables, std::size_t variables, std::size_t& most_rows);

}  // namespace lockstep::plan
