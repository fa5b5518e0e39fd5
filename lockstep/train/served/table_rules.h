// The tables of a model on parameter servers, and the rules by which servers update tables and parameters.
#pragma once

#include <lockstep/models/remote_rows.h>
#include <lockstep/parameter_servers/wire.h>
#include <lockstep/rows/row_rule.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/resolved_run.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace torch::nn {
class Module;
}

namespace lockstep::train {

/// The specifications of the module's tables on servers, in the module's order.
std::vector<parameter_servers::TableSpec> table_specs(const torch::nn::Module& module);

/// The trained parameters of a module, including its tables on servers, which are placeholders of the right sizes
/// without memory.
NamedParameters trained_parameters(const torch::nn::Module& module);

/// The run for the parameters of the module itself: patterns of optimizer.groups for tables on servers
/// are left out. Error(config) for a pattern that matches neither.
ResolvedRun run_of_module(const ResolvedRun& run, const torch::nn::Module& module);

/// The optimizer of tables and other parameters on servers, by their numbers; it does not have their values.
class TableRules {
 public:
  /// Tables come first, then `served`, which are some of the module's. Error(config) for an optimizer that is not a row
  /// optimizer, and the errors of make_optimizer.
  TableRules(const ResolvedRun& run, const torch::nn::Module& module, const NamedParameters& served);
  ~TableRules();
  TableRules(TableRules&&) noexcept;

  const rows::RuleSettings& settings(std::size_t table) const;
  /// The numbers of a step, for the scheduled learning rate.
  rows::RowUpdate update(std::size_t table, double lr, std::int64_t step);

 private:
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::vector<std::size_t> groups_;  ///< of the optimizer, by table
};

}  // namespace lockstep::train
