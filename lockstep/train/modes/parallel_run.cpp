// The factory that chooses between the global and the mirrored run, and a rank's share of the data for each.
#include <lockstep/train/modes/mesh_config.h>
#include <lockstep/train/modes/parallel_run.h>
#include <lockstep/train/modes/wrapper.h>

#include <algorithm>
#include <cmath>

namespace lockstep::train {

std::int64_t bytes_of_mib(double mib) { return std::max<std::int64_t>(1, std::llround(mib * 1024.0 * 1024.0)); }

DataShare data_share(const ResolvedRun& config, const Group& group) {
  return is_global_mode(config.parallel) ? global_data_share(config.parallel, group.rank(), group.size())
                                         : DataShare{group.rank(), group.size()};
}

std::unique_ptr<ParallelRun> make_parallel_run(const ResolvedRun& config, const Model& model, const Group& group,
                                               const ForwardOptions& options, std::optional<TablePlace> tables) {
  wrap_module(config, *model.module, group);
  if (is_global_mode(config.parallel)) return make_global_run(config, model, group, options);
  return make_mirrored_run(config, model, group, options, std::move(tables));
}

}  // namespace lockstep::train
