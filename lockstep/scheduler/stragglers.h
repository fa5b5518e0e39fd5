// Which workers hold up the others. Pure.
#pragma once

#include <lockstep/base/step_times.h>

#include <optional>
#include <vector>

namespace lockstep::scheduler {

/// By worker, whether all others wait for it: its own part of a step takes at least half as long again as is usual
/// among the others (their median), and the difference is worth a look: 5 ms, and a tenth of the step. Several may be
/// slow, as long as they are fewer than the rest. nullopt, a worker whose times are not known, is none and does not
/// count.
std::vector<bool> find_stragglers(const std::vector<std::optional<StepTime>>& workers);

}  // namespace lockstep::scheduler
