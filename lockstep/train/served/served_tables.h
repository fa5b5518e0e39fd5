// A model's data on parameter servers: rows of embedding tables, and parameters that are cut into slices, which servers
// store as rows of a table. The rules by which servers update them, and the worker's view: workers keep copies of the
// values, and fetch the new values in each step.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/models/remote_rows.h>
#include <lockstep/parameter_servers/client.h>
#include <lockstep/parameter_servers/wire.h>
#include <lockstep/rows/row_rule.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/state/sharded/save.h>
#include <lockstep/train/config.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/resolved_run.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
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

/// Whether parallel.mode is the mode with parameter servers.
bool is_served_mode(const ParallelConfig& config);

/// The number of steps that a worker may be ahead of the slowest one; nullopt: a step has the gradients of all workers,
/// and the result equals that of data parallel.
std::optional<std::int64_t> most_ahead(const ServerConfig& config);

/// The parameters that parallel.server.parameters names, in the module's order, without frozen ones; none in another
/// mode. Error(config) for a pattern that matches neither a parameter nor a table on servers, for a parameter that is
/// not float32 on the CPU, and for a parameter that is left out if workers are asynchronous (most_ahead()).
NamedParameters served_parameters(const ParallelConfig& config, const torch::nn::Module& module);

/// The tables on servers: the last slice is padded with zeros, if necessary.
std::vector<parameter_servers::TableSpec> slice_specs(const ServerConfig& config, const NamedParameters& parameters);

/// Sends rank 0's values to all, workers and servers. A collective of `everyone`.
void share_first_values(const NamedParameters& parameters, const Group& everyone);

/// Every slice of one parameter, [rows, dim], with the zeros at the end.
at::Tensor slices_of(const at::Tensor& values, const parameter_servers::TableSpec& spec);

/// A worker's side. Not thread-safe.
class ServedParameters {
 public:
  /// `first_table`: the client's number of the first of them.
  ServedParameters(NamedParameters parameters, std::vector<parameter_servers::TableSpec> specs,
                   std::size_t first_table);
  ~ServedParameters();
  ServedParameters(ServedParameters&&) noexcept;
  ServedParameters& operator=(ServedParameters&&) noexcept;

  /// Moves the gradients of a step out of the parameters, which then have none. They stay valid until the next call.
  /// Error(unsupported) for a sparse one.
  std::vector<parameter_servers::GradientsOfTable> take_gradients();

  /// Fetches the values of this step from the servers.
  void update(parameter_servers::RowClient& client);

  bool empty() const { return parameters_.empty(); }

 private:
  struct Parameter;
  std::vector<Parameter> parameters_;
};

/// The location of a run's tables: servers, with which this worker communicates in groups of two.
struct TablePlace {
  Group everyone;            ///< workers, then servers
  std::vector<Group> pairs;  ///< by server
  int workers = 0;
  std::int64_t step = 0;  ///< completed steps
};

class ServedTables {
 public:
  /// Connects the module's tables to the servers. A collective of workers and servers.
  ServedTables(const ParallelConfig& config, const torch::nn::Module& module, TablePlace place);

  /// Ends a step: moves the gradients of its backward passes out, and sends them to the servers as an update.
  void update(double lr, double scale);

  /// Called between two steps of all workers: gives all workers the same values. They are different only if workers are
  /// asynchronous (most_ahead()).
  void refresh();

  /// The tables as tensors of the model, read in blocks of rows.
  std::vector<RemoteTensor> tensors();

  /// The state that the run saves: `own`, which every worker has, and the rows. A collective of workers and servers.
  SavedState saved(NamedTensors own);

  /// Called when the servers are no longer needed.
  void finish(std::optional<int> ended_by) { client_->finish(ended_by); }

 private:
  TablePlace place_;
  std::vector<models::NamedTable> tables_;
  ServedParameters parameters_;
  std::shared_ptr<parameter_servers::RowClient> client_;
  bool is_synchronous_;
};

}  // namespace lockstep::train
