#include <lockstep/base/error.h>
#include <lockstep/plan/report/shown.h>
#include <lockstep/plan/search/refusal.h>

namespace lockstep::plan {

void refuse(const Task& task, const Candidate& smallest, std::optional<int> enough) {
  const auto& memory = smallest.prediction.memory;
  fail(ErrorKind::unsupported, "plan",
       "{} for {} of \"{}\" fits: {} needs {} on each device, which has {}; {} are missing (parameters {}, gradients "
       "{}, "
       "optimizer {}, activations {}, communication {}). {}",
       task.options.choose == kBest ? std::string("no plan") : fmt::format("no layout \"{}\"", task.options.choose),
       shown_devices(task.cluster.devices()), task.cluster.name,
       task.options.choose == kBest ? "the smallest found" : "it", shown(memory.total()),
       shown(task.cluster.device.memory), shown(smallest.score.missing), shown(memory.parameters),
       shown(memory.gradients), shown(memory.optimizer_state), shown(memory.activations), shown(memory.communication),
       enough ? fmt::format("{} devices of this kind would do; or make the batch smaller", *enough)
              : fmt::format("Not even {} devices of this kind would do; make the batch or the model smaller",
                            kMostDevices));
}

}  // namespace lockstep::plan
