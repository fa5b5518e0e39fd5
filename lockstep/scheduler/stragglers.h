// Detection of stragglers: workers that the others wait for. Pure.
#pragma once

#include <lockstep/base/step_times.h>

#include <optional>
#include <vector>

namespace lockstep::scheduler {

/// By worker, whether all others wait for it: its own part of a step takes at least 1.5 times the
/// median of the others, and the difference is large enough: 5 ms, and a tenth of the step. Several may be
/// slow, as long as they are fewer than the rest. nullopt, a worker whose times are not known, is not a straggler and
/// does not count.
std::vector<bool> find_stragglers(const std::vector<std::optional<StepTime>>& workers);

}  // namespace lockstep::scheduler
