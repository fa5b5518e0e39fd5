// The differences between settings: of a run and the run that it continues, and which of them are allowed; and of the
// ranks of a run, before anything depends on them.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/train/checkpoint/run_state.h>
#include <lockstep/train/resolved_run.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

/// The severity of a difference.
enum class Weight {
  shown,          ///< the result stays the same, except for rounding
  shapes_result,  ///< needs the user's consent (checkpoint.allow_changes)
  fixed,          ///< a position in the data, or a tensor, would lose its meaning
};

struct Change {
  std::string key;
  std::string before;
  std::string now;
  Weight weight = Weight::shown;
};

/// The facts of a run that are not in its configuration.
struct RunFacts {
  int ranks = 1;
  std::int64_t total_steps = 0;
  bool has_batch_norm = false;
};

/// Every key of a configuration, "section.name", with its value as YAML.
Settings all_settings(const ResolvedRun& config);

/// The keys of a configuration that a checkpoint keeps, with their effective values: defaults that follow from other
/// keys are resolved; keys without effect (BatchNorm's without BatchNorm) and those of the rendezvous are left out.
Settings recorded_configuration(const ResolvedRun& config, const RunFacts& facts);

/// The differences, by severity, the most severe first. `settings` and `configuration` are those of this run; a
/// checkpoint without a recorded configuration is compared only by its settings. Additional keys of parts and programs
/// shape the result, except for paths (a_path()) of `config`, which is this run's: a file may move.
std::vector<Change> find_changes(const RunState& saved, const Settings& settings, const Settings& configuration,
                                 const ResolvedRun& config);

/// Error(config) naming all differences with both values when one is fixed, or shapes the result and is not listed in
/// checkpoint.allow_changes. `origin` names the checkpoint that the run continues.
void require_allowed(const std::vector<Change>& changes, const ResolvedRun& config, std::string_view origin);

/// checkpoint.allow_changes: Error(config) unless it is true, false, null, a key or section, or a list of those.
void check_allowed_changes(const ResolvedRun& config);

/// "optimizer.lr: 0.1 -> 0.2"
std::string describe(const Change& change);

bool shapes_result(const std::vector<Change>& changes);

/// Keys and values of a configuration, without those that may differ between ranks: paths of files, devices, and the
/// rendezvous.
Settings common_settings(const ResolvedRun& config);

/// Returns `own` if every rank has the settings of rank 0. Else throws, on all ranks, Error(config) with the first rank
/// that differs, the keys, and both values. A collective.
Settings require_same_settings(Settings own, const Group& group);

}  // namespace lockstep::train
