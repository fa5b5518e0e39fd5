// The least sum of tables, by variable elimination.
#include <lockstep/plan/search/exact.h>

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

namespace lockstep::plan {
namespace {

std::size_t position(const Table& table, std::uint32_t variable) {
  return static_cast<std::size_t>(std::find(table.variables.begin(), table.variables.end(), variable) -
                                  table.variables.begin());
}

/// The values of some variables of a row, as a key.
std::u16string key_of(const Table& table, std::size_t row, const std::vector<std::size_t>& positions) {
  std::u16string key;
  for (const auto at : positions) key.push_back(table.values[row * table.variables.size() + at]);
  return key;
}

/// Joins two tables: all pairs of rows that agree on the common variables. False when there are too many.
bool join(const Table& a, const Table& b, Table& result, std::size_t& most_rows) {
  std::vector<std::size_t> shared_a;
  std::vector<std::size_t> shared_b;
  std::vector<std::size_t> only_b;
  for (std::size_t at = 0; at < b.variables.size(); ++at) {
    const auto in_a = position(a, b.variables[at]);
    if (in_a < a.variables.size()) {
      shared_a.push_back(in_a);
      shared_b.push_back(at);
    } else {
      only_b.push_back(at);
    }
  }
  result = {.variables = a.variables, .values = {}, .costs = {}};
  for (const auto at : only_b) result.variables.push_back(b.variables[at]);
  std::unordered_map<std::u16string, std::vector<std::size_t>> rows_of;
  for (std::size_t row = 0; row < b.rows(); ++row) rows_of[key_of(b, row, shared_b)].push_back(row);
  for (std::size_t row = 0; row < a.rows(); ++row) {
    const auto found = rows_of.find(key_of(a, row, shared_a));
    if (found == rows_of.end()) continue;
    for (const auto other : found->second) {
      if (most_rows == 0) return false;
      --most_rows;
      const auto begin = a.values.begin() + static_cast<std::ptrdiff_t>(row * a.variables.size());
      result.values.insert(result.values.end(), begin, begin + static_cast<std::ptrdiff_t>(a.variables.size()));
      for (const auto at : only_b) result.values.push_back(b.values[other * b.variables.size() + at]);
      result.costs.push_back(a.costs[row] + b.costs[other]);
    }
  }
  return true;
}

/// The best value of an eliminated variable for each combination of its neighbours' values.
struct Eliminated {
  std::uint32_t variable = 0;
  std::vector<std::uint32_t> neighbours;
  std::unordered_map<std::u16string, std::uint16_t> best;
};

class Elimination {
 public:
  Elimination(std::vector<Table> tables, std::size_t variables, std::size_t& most_rows)
      : tables_(std::move(tables)), of_variable_(variables), neighbours_(variables), most_rows_(most_rows) {
    for (std::size_t i = 0; i < tables_.size(); ++i) enter(i);
    for (std::uint32_t variable = 0; variable < variables; ++variable) {
      if (!of_variable_[variable].empty()) queue_.insert({neighbours_[variable].size(), variable});
    }
  }

  std::optional<LeastSum> solve() {
    while (!queue_.empty()) {
      const auto next = queue_.begin()->second;
      queue_.erase(queue_.begin());
      if (!eliminate(next)) return std::nullopt;
    }
    LeastSum result{.cost = constant_, .values = std::vector<std::uint16_t>(of_variable_.size())};
    for (auto each = order_.rbegin(); each != order_.rend(); ++each) {
      std::u16string key;
      for (const auto neighbour : each->neighbours) key.push_back(result.values[neighbour]);
      result.values[each->variable] = each->best.at(key);
    }
    return result;
  }

 private:
  void enter(std::size_t table) {
    const auto& variables = tables_[table].variables;
    if (variables.empty()) {
      if (tables_[table].rows() > 0) constant_ += tables_[table].costs[0];
      return;
    }
    for (const auto variable : variables) {
      of_variable_[variable].insert(table);
      for (const auto other : variables) {
        if (other != variable) neighbours_[variable].insert(other);
      }
    }
  }

  bool eliminate(std::uint32_t variable) {
    std::vector<std::size_t> parts(of_variable_[variable].begin(), of_variable_[variable].end());
    std::stable_sort(parts.begin(), parts.end(),
                     [&](std::size_t a, std::size_t b) { return tables_[a].rows() < tables_[b].rows(); });
    Table all = std::move(tables_[parts[0]]);
    for (const auto part : parts) {
      for (const auto other : part == parts[0] ? all.variables : tables_[part].variables)
        of_variable_[other].erase(part);
    }
    for (std::size_t i = 1; i < parts.size(); ++i) {
      Table joined;
      if (!join(all, tables_[parts[i]], joined, most_rows_)) return false;
      tables_[parts[i]] = {};
      all = std::move(joined);
    }
    if (all.rows() == 0) return false;
    tables_.push_back(without(std::move(all), variable));
    forget(variable);
    enter(tables_.size() - 1);
    return true;
  }

  Table without(Table all, std::uint32_t variable) {
    const auto at = position(all, variable);
    std::vector<std::size_t> others;
    Eliminated eliminated{.variable = variable, .neighbours = {}, .best = {}};
    for (std::size_t i = 0; i < all.variables.size(); ++i) {
      if (i == at) continue;
      others.push_back(i);
      eliminated.neighbours.push_back(all.variables[i]);
    }
    Table rest{.variables = eliminated.neighbours, .values = {}, .costs = {}};
    std::unordered_map<std::u16string, std::size_t> row_of;
    for (std::size_t row = 0; row < all.rows(); ++row) {
      const auto key = key_of(all, row, others);
      const auto value = all.values[row * all.variables.size() + at];
      const auto [found, is_new] = row_of.emplace(key, rest.rows());
      if (is_new) {
        rest.values.insert(rest.values.end(), key.begin(), key.end());
        rest.costs.push_back(all.costs[row]);
        eliminated.best.emplace(key, value);
      } else if (all.costs[row] < rest.costs[found->second]) {
        rest.costs[found->second] = all.costs[row];
        eliminated.best[key] = value;
      }
    }
    order_.push_back(std::move(eliminated));
    return rest;
  }

  /// Removes a variable; its neighbours become neighbours of one another.
  void forget(std::uint32_t variable) {
    for (const auto neighbour : neighbours_[variable]) {
      queue_.erase({neighbours_[neighbour].size(), neighbour});
      neighbours_[neighbour].erase(variable);
      for (const auto other : neighbours_[variable]) {
        if (other != neighbour) neighbours_[neighbour].insert(other);
      }
      queue_.insert({neighbours_[neighbour].size(), neighbour});
    }
  }

  std::vector<Table> tables_;
  std::vector<std::set<std::size_t>> of_variable_;         ///< tables of each variable
  std::vector<std::set<std::uint32_t>> neighbours_;        ///< variables in these tables
  std::set<std::pair<std::size_t, std::uint32_t>> queue_;  ///< fewest neighbours first
  std::vector<Eliminated> order_;
  std::size_t& most_rows_;
  double constant_ = 0;
};

}  // namespace

std::optional<LeastSum> least_sum(std::vector<Table> tables, std::size_t variables, std::size_t& most_rows) {
  return Elimination(std::move(tables), variables, most_rows).solve();
}

}  // namespace lockstep::plan
