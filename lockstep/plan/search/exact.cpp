// The branch and bound search for the best layout on one mesh.
#include <lockstep/plan/search/exact.h>

#include <algorithm>
#include <array>
#include <limits>
#include <queue>
#include <utility>

namespace lockstep::plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kSlack = 1e-9;
constexpr int kTrials = 12;  ///< of prices for memory

/// Lagrange multipliers, which bound the cost from below by a sum of tables: the step waits for reductions as far as
/// they take longer than the backward phase, which is at least `hidden` times the difference (0 to 1), and missing
/// memory has a price.
struct Multipliers {
  double hidden = 0;
  double price = 0;  ///< seconds for a byte
};

void add_scaled(std::vector<Table>& to, const std::vector<Table>& tables, double factor) {
  if (factor == 0) return;
  for (const auto& table : tables) {
    to.push_back(table);
    for (auto& cost : to.back().costs) cost *= factor;
  }
}

class Proof {
 public:
  Proof(const Program& program, const Space& space, Decisions& decisions, const Improved& known, ExactBudget budget)
      : program_(program),
        space_(space),
        decisions_(decisions),
        budget_(budget),
        best_score_(score_of(known.prediction, decisions.model())) {}

  std::optional<ExactResult> run() {
    auto tables = step_tables(program_, space_, decisions_, budget_.rows, budget_.decisions);
    if (!tables) return std::nullopt;
    tables_ = std::move(*tables);
    if (!choose_multipliers()) return std::nullopt;
    explore();
    return std::move(result_);
  }

 private:
  struct Open {
    double bound = 0;
    std::size_t number = 0;  ///< earlier ones first where bounds are equal
    std::vector<int> fixed;  ///< for each decision, -1: open
    bool operator<(const Open& other) const {
      return std::pair(-bound, -static_cast<double>(number)) <
             std::pair(-other.bound, -static_cast<double>(other.number));
    }
  };

  double best_cost() const { return best_score_.memory_shortage > Bytes{} ? kNever : best_score_.cost.value; }

  std::vector<Table> weighted(const Multipliers& multipliers) const {
    const double beside = decisions_.model().overlap;
    std::vector<Table> sum = tables_.time;
    add_scaled(sum, tables_.reduction, (1 - beside) + multipliers.hidden * (2 * beside - 1));
    add_scaled(sum, tables_.backward, -multipliers.hidden);
    add_scaled(sum, tables_.persistent, multipliers.price);
    return sum;
  }

  /// A lower bound for all layouts with the fixed values; the layout with this bound is evaluated as a candidate.
  std::optional<double> bound(const std::vector<Table>& sum, const Multipliers& multipliers,
                              const std::vector<int>& fixed) {
    auto all = sum;
    for (std::size_t i = 0; i < fixed.size(); ++i) {
      if (fixed[i] < 0) continue;
      all.push_back({.variables = {tables_.decisions[i].variable},
                     .values = {static_cast<std::uint16_t>(fixed[i])},
                     .costs = {0}});
    }
    const auto least = least_sum(std::move(all), tables_.variables, budget_.rows);
    if (!least) return budget_.rows == 0 ? std::nullopt : std::optional(kNever);
    try_layout(least->values);
    return least->cost - multipliers.price * decisions_.model().memory.value;
  }

  Score try_layout(const std::vector<std::uint16_t>& values) {
    auto assignment = start_of(program_, space_, decisions_);
    for (const auto& decision : tables_.decisions) {
      const auto& option = decision.options[values[decision.variable]];
      if (decision.inputs) {
        place_inputs(program_, space_, option, decisions_, assignment);
      } else {
        assignment[decision.values[0]] = decisions_.number(option);
      }
    }
    auto prediction = simulate(program_, decisions_, assignment);
    const auto score = score_of(prediction, decisions_.model());
    if (is_better(score, best_score_)) {
      best_score_ = score;
      result_.best = Improved{.assignment = std::move(assignment), .prediction = std::move(prediction)};
    }
    return score;
  }

  /// Selects the multipliers with the highest bound for the whole problem.
  bool choose_multipliers() {
    const std::vector<int> open(tables_.decisions.size(), -1);
    double highest = -kNever;
    const auto consider = [&](const Multipliers& multipliers) {
      const auto found = bound(weighted(multipliers), multipliers, open);
      if (!found) return false;
      if (*found > highest) {
        highest = *found;
        multipliers_ = multipliers;
      }
      return true;
    };
    for (const double hidden : {0.0, 0.5, 1.0}) {
      if (!consider({.hidden = hidden, .price = 0})) return highest > -kNever && accept(highest);
    }
    accept(highest);
    const bool tight = best_cost() < kNever && highest >= best_cost() * (1 - kSlack);
    const double hidden = multipliers_.hidden;
    double price = highest / decisions_.model().memory.value / 16;
    for (int trial = 0; !tight && trial < kTrials && memory_matters_; ++trial, price *= 2) {
      const auto before = highest;
      if (!consider({.hidden = hidden, .price = price})) break;
      if (highest == before && trial > 6) break;
    }
    return accept(highest);
  }

  bool accept(double highest) {
    result_.lower_bound = {highest};
    double least = 0;
    double most = 0;
    for (const auto& table : tables_.persistent) {
      least += *std::min_element(table.costs.begin(), table.costs.end());
      most += *std::max_element(table.costs.begin(), table.costs.end());
    }
    memory_matters_ = most > decisions_.model().memory.value * 0.5 && least < most;
    return true;
  }

  void explore() {
    if (tables_.decisions.empty()) {  // there is only one layout, and it is known
      result_.proven = best_cost() < kNever;
      result_.lower_bound = {best_cost()};
      return;
    }
    const auto sum = weighted(multipliers_);
    std::priority_queue<Open> open;
    open.push(
        {.bound = result_.lower_bound.value, .number = 0, .fixed = std::vector<int>(tables_.decisions.size(), -1)});
    std::size_t number = 0;
    while (!open.empty() && open.top().bound < best_cost() * (1 - kSlack)) {
      result_.lower_bound = {open.top().bound};
      const auto next = open.top();
      const auto undecided = std::find(next.fixed.begin(), next.fixed.end(), -1);
      if (undecided == next.fixed.end() || budget_.problems == 0) return;
      open.pop();
      const auto at = static_cast<std::size_t>(undecided - next.fixed.begin());
      for (std::size_t option = 0; option < tables_.decisions[at].options.size(); ++option) {
        auto fixed = next.fixed;
        fixed[at] = static_cast<int>(option);
        budget_.problems -= std::min<std::size_t>(budget_.problems, 1);
        const bool all_fixed = std::find(fixed.begin(), fixed.end(), -1) == fixed.end();
        const auto lower = all_fixed ? exactly(fixed) : bound(sum, multipliers_, fixed);
        if (!lower) return;
        if (*lower < best_cost() * (1 - kSlack))
          open.push({.bound = std::max(*lower, next.bound), .number = ++number, .fixed = std::move(fixed)});
      }
    }
    result_.proven = best_cost() < kNever;
    if (result_.proven) result_.lower_bound = {best_cost()};
  }

  /// The exact cost when all values are fixed. The layout is recorded if it is the best so far, so this branch is
  /// finished.
  std::optional<double> exactly(const std::vector<int>& fixed) {
    std::vector<std::uint16_t> values(tables_.variables);
    for (std::size_t i = 0; i < fixed.size(); ++i)
      values[tables_.decisions[i].variable] = static_cast<std::uint16_t>(fixed[i]);
    try_layout(values);
    return kNever;
  }

  const Program& program_;
  const Space& space_;
  Decisions& decisions_;
  ExactBudget budget_;
  StepTables tables_;
  Multipliers multipliers_;
  Score best_score_;
  bool memory_matters_ = false;
  ExactResult result_;
};

/// All layouts, one after the other.
class Everything {
 public:
  Everything(const Program& program, const Space& space) : program_(program), space_(space) {
    for (std::size_t i = 0; i < program.parameters.size(); ++i) {
      const auto& info = program.values[program.parameters[i]].info;
      options_.push_back(space.fixed[i] ? std::vector<Placements>{*space.fixed[i]}
                                        : all_options(info, space.by_axis[i], space.mesh_sizes));
    }
    options_.push_back(program.inputs.empty() ? std::vector<Placements>{Placements(space.mesh_sizes.size())}
                                              : input_options(space));
    for (const auto& each : options_) sizes_.push_back(each.size());
  }

  /// The number of operators to simulate; it is huge if the number of layouts is huge.
  double operators() const {
    auto count = static_cast<double>(program_.steps.size());
    for (const auto size : sizes_) count *= static_cast<double>(size);
    return count;
  }

  ExactResult run(Decisions& decisions, const Improved& known) const {
    ExactResult result;
    auto best = score_of(known.prediction, decisions.model());
    std::vector<std::uint16_t> at(sizes_.size());
    do {
      auto assignment = start_of(program_, space_, decisions);
      for (std::size_t i = 0; i < program_.parameters.size(); ++i) {
        assignment[program_.parameters[i]] = decisions.number(options_[i][at[i]]);
      }
      place_inputs(program_, space_, options_.back()[at.back()], decisions, assignment);
      auto prediction = simulate(program_, decisions, assignment);
      const auto score = score_of(prediction, decisions.model());
      if (!is_better(score, best)) continue;
      best = score;
      result.best = Improved{.assignment = std::move(assignment), .prediction = std::move(prediction)};
    } while (advance(at, sizes_));
    result.proven = best.memory_shortage == Bytes{};
    result.lower_bound = best.cost;
    return result;
  }

 private:
  const Program& program_;
  const Space& space_;
  std::vector<std::vector<Placements>> options_;  ///< of each parameter, and of the inputs
  std::vector<std::size_t> sizes_;
};

}  // namespace

std::optional<ExactResult> search_exactly(const Program& program, const Space& space, Decisions& decisions,
                                          const Improved& known, ExactBudget budget) {
  auto result = Proof(program, space, decisions, known, budget).run();
  if (result && result->proven) return result;
  const Everything everything(program, space);
  if (everything.operators() > static_cast<double>(budget.trials)) return result;
  auto tried = everything.run(decisions, known);
  return tried.proven ? tried : result;
}

}  // namespace lockstep::plan
