// The version of the file format of plans.
#pragma once

namespace lockstep::plan {

/// The format version; increased when older files can no longer be read.
inline constexpr int kPlanFormat = 1;

}  // namespace lockstep::plan
