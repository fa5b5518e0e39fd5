// The predicted memory of a step on one rank, from a traced graph, and the warning where the host has less.
#include <lockstep/train/modes/step_memory.h>

#include <lockstep/plan/report/explain.h>
#include <lockstep/plan/search/search.h>
#include <lockstep/train/modes/planned_step.h>

#include <fmt/format.h>

namespace lockstep::train {

plan::Memory memory_of_step(const RunConfig& config, const Program& program, const samples::Batch& example,
                            std::int64_t samples) {
  const auto step = trace_run(config, program, example, samples);
  return plan::predict(step.graph, plan::Cluster{}, {1}, Placements(1), {}).memory;
}

std::string why_too_large(const plan::Memory& needed, int ranks, std::int64_t samples, std::uint64_t available) {
  using plan::shown;
  const auto missing = static_cast<double>(ranks) * (needed.total() - needed.parameters).value;
  if (missing <= static_cast<double>(available)) return "";
  return fmt::format(
      "warning: the first step does not fit into memory: {} samples a rank need about {} (parameters {}, gradients {}, "
      "optimizer {}, activations {}){}, and beside the parameters {} are available. The system may end the run without "
      "a message: make data.batch_size smaller (train.accumulate keeps the samples of a step), or use "
      "parallel.recompute, fewer ranks on this machine, or parallel.mode semi_auto",
      samples, shown(needed.total()), shown(needed.parameters), shown(needed.gradients), shown(needed.optimizer_state),
      shown(needed.activations), ranks == 1 ? "" : fmt::format(" on each of {} ranks here", ranks),
      shown(plan::Bytes{static_cast<double>(available)}));
}

}  // namespace lockstep::train
