// Where a run stands between two optimizer steps: everything but tensors.
#pragma once

#include <lockstep/train/config.h>
#include <lockstep/train/reports.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

/// Settings by key, e.g. {"optimizer.name", "momentum"}.
using Settings = std::map<std::string, std::string, std::less<>>;

struct RunState {
  std::int64_t step = 0;           ///< optimizer steps done
  std::int64_t epoch = 0;          ///< epochs finished
  std::int64_t step_in_epoch = 0;  ///< steps done of the epoch after those; with `epoch` the sampler's position
  std::int64_t samples = 0;        ///< pictures of all ranks in those steps
  double seconds = 0;              ///< time spent in those steps, by all processes that took part one after another
  std::vector<Evaluation> evaluations;
  Settings settings;                                ///< run_settings of the run that wrote it
  std::optional<StepReport> logged = std::nullopt;  ///< the last step that the metrics wanted, which all ranks know
};

/// As one JSON object, and back. Error(data) naming what is missing or of the wrong type.
std::string to_json(const RunState& state);
RunState parse_run_state(std::string_view json);

/// What must not change between the parts of one run, because the meaning of its position or of its tensors depends on
/// it: seeds, data set, order, global batch (data.batch_size times ranks), accumulation, model, optimizer's kind.
/// Learning rate, schedule, length, number of ranks (with the same global batch) and the rest may change.
Settings run_settings(const RunConfig& config, int world_size, std::int64_t train_samples);

/// Error(config) naming the first setting in which a checkpoint's run and this one differ, with both values.
void require_same_run(const RunState& saved, const Settings& now, std::string_view checkpoint);

}  // namespace lockstep::train
