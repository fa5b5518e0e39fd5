// The schedules of Lockstep, as parts.
#pragma once

#include <lockstep/train/parts.h>

#include <vector>

namespace lockstep::train {

std::vector<SchedulePart> schedule_parts();

}  // namespace lockstep::train
