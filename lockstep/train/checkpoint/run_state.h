// The state of a run between two optimizer steps, except tensors.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/state/resume.h>
#include <lockstep/train/callback.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/resolved_run.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

/// Settings by key, e.g. {"optimizer.name", "momentum"}.
using Settings = std::map<std::string, std::string, std::less<>>;

/// The state of the scaler between two steps: the same on all ranks, and part of a checkpoint. A plain value.
struct LossScale {
  double value = 0;  ///< the factor of the next step; 0 before the first step, and without a scaler
  std::int64_t steps_without_overflow = 0;  ///< since the last overflow or change
  std::int64_t skipped = 0;                 ///< steps of the run whose gradients overflowed
  std::int64_t skipped_in_a_row = 0;
};

struct RunState {
  std::int64_t step = 0;           ///< optimizer steps done
  std::int64_t epoch = 0;          ///< epochs finished
  std::int64_t step_in_epoch = 0;  ///< steps done in the current epoch; with `epoch` the sampler's position
  std::int64_t samples = 0;        ///< samples of all ranks in those steps
  double seconds = 0;              ///< time spent in those steps, by all processes that took part one after another
  std::vector<Evaluation> evaluations;
  Settings settings;         ///< run_settings of the run that wrote it
  Settings configuration{};  ///< recorded_configuration of it; empty from older programs
  std::map<std::string, std::string, std::less<>> callbacks{};  ///< state of callbacks as text, by their names
  std::string stopped{};                                        ///< why a callback stopped the run; empty: none did
  LossScale loss_scale{};                                       ///< state of the loss scaler
  std::map<std::string, double, std::less<>> times{};  ///< up to a checkpoint, TimeDivision::parts; empty: not known
  std::optional<StepReport> logged = std::nullopt;     ///< the last step with a line in the metrics, on all ranks
};

/// Conversion to one JSON object and from it. Error(data) naming the key that is missing or of the wrong type.
std::string to_json(const RunState& state);
RunState parse_run_state(std::string_view json);

/// The settings that must not change between the parts of one run, because its position or its tensors depend on them:
/// seeds, data set, order, global batch (`shares` ranks load different samples), accumulation, model, and kind of
/// optimizer. changes.h lists the settings that need the user's consent to change.
Settings run_settings(const ResolvedRun& config, int shares, std::int64_t train_samples);

/// The key of the global batch in these settings.
inline constexpr std::string_view kGlobalBatch = "global batch (data.batch_size x ranks)";

/// Follows checkpoint.resume (state/resume.h): the record of the point is a RunState.
std::optional<ResumePoint> find_resume_point(const ResolvedRun& config, const Group& group);

}  // namespace lockstep::train
