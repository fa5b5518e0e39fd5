// The version of the file format of plans.
#pragma once

namespace lockstep::plan {

/// Counts up when files of before cannot be read any more.
inline constexpr int kPlanFormat = 1;

}  // namespace lockstep::plan
