// The tables of a model whose rows parameter servers have, as a worker of a run uses them.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/servers/client.h>
#include <lockstep/train/config.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/sharded/sharded_save.h>
#include <lockstep/train/weights/distant_tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace torch::nn {
class Module;
}

namespace lockstep::train {

/// Where a run's tables are: on servers, with which this worker speaks in groups of two.
struct TablePlace {
  Group everyone;            ///< workers, then servers
  std::vector<Group> pairs;  ///< by server
  int workers = 0;
  std::int64_t step = 0;  ///< completed steps
};

/// Whether parallel.mode is that of runs with parameter servers.
bool is_served_mode(const ParallelConfig& config);

class ServedTables {
 public:
  /// Gives the module's tables their home.
  ServedTables(const ParallelConfig& config, const torch::nn::Module& module, TablePlace place);

  /// Ends a step: the gradients of its backward passes become an update of the rows.
  void update(double lr, double scale);

  /// The tables as tensors of the model, read in blocks of rows.
  std::vector<DistantTensor> tensors();

  /// What the run saves: `own`, which every worker has, and the rows. A collective of workers and servers.
  SavedState saved(NamedTensors own);

  /// The servers are not needed any more.
  void finish(std::optional<int> ended_by) { client_->finish(ended_by); }

 private:
  TablePlace place_;
  std::vector<models::NamedTable> tables_;
  std::shared_ptr<servers::Client> client_;
};

}  // namespace lockstep::train
