#include <lockstep/train/global_run.h>
#include <lockstep/train/mesh_config.h>
#include <lockstep/train/mirrored_run.h>
#include <lockstep/train/parallel_run.h>

namespace lockstep::train {

DataShare data_share(const RunConfig& config, const Group& group) {
  return is_global_mode(config.parallel) ? global_data_share(config.parallel, group.rank(), group.size())
                                         : DataShare{group.rank(), group.size()};
}

std::unique_ptr<ParallelRun> make_parallel_run(const RunConfig& config, const models::Classifier& model,
                                               const Group& group, const ForwardOptions& options) {
  if (is_global_mode(config.parallel)) return std::make_unique<GlobalRun>(config, model, group, options);
  return std::make_unique<MirroredRun>(config, model, group, options);
}

}  // namespace lockstep::train
