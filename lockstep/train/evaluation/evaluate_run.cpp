// The evaluation of a model outside of training.
#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/data/files/counted_remarks.h>
#include <lockstep/train/callbacks/console_lines.h>
#include <lockstep/train/checkpoint/run_state.h>
#include <lockstep/train/evaluation/evaluate_run.h>
#include <lockstep/train/evaluation/measured_model.h>
#include <lockstep/train/keys/config_keys.h>

#include <fmt/format.h>

namespace lockstep::train {

Evaluation evaluate_run(const RunConfig& given, const Program& parts, const Group& group, const NamedTensors* weights) {
  const data::ReportsOnce once(group.rank() != 0);
  const MeasuredModel measured(given, parts, group, weights);
  const auto data = measured.data();
  if (!data) fail(ErrorKind::config, "data", "there is nothing to evaluate on: the data has no split for it");
  const auto batches = data->batches(measured.device());
  auto evaluation = measured.run().evaluate(*batches);
  measured.tell(
      fmt::format("{} ({} samples in {:.1f} s)", values_text(evaluation), evaluation.samples, evaluation.seconds));
  if (!evaluation.shown.empty()) measured.tell(evaluation.shown);
  barrier(group);
  return evaluation;
}

NamedTensors checkpoint_weights(const RunConfig& config, const Group& group) {
  auto point = find_resume_point(config, group);
  if (!point) {
    fail(ErrorKind::config, "checkpoint.resume", "there is no checkpoint in {}; train first, or give model.weights",
         checkpoint_folder_of(config).string());
  }
  return point->tensors.read_part("model");
}

}  // namespace lockstep::train
