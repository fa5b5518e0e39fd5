// Parameters of a module that parameter servers store in addition to the embedding tables: they are cut into slices,
// which servers store as rows of a table. Workers keep copies of the values, and fetch the new values in each step.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/parameter_servers/client.h>
#include <lockstep/parameter_servers/partition.h>
#include <lockstep/train/config.h>
#include <lockstep/train/optimizer.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace lockstep::train {

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

}  // namespace lockstep::train
