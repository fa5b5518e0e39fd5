// The worker's view of a model's data on parameter servers: rows of tables, and other parameters.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/parameter_servers/client.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/state/sharded/sharded_save.h>
#include <lockstep/train/config.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/served/served_parameters.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace torch::nn {
class Module;
}

namespace lockstep::train {

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
