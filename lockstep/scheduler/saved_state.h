// A roll as a file, for a scheduler that dies and comes back.
#pragma once

#include <lockstep/scheduler/roll.h>

#include <string>
#include <string_view>

namespace lockstep::scheduler {

std::string print_state(const Roll& roll);

/// Fills in what `print_state` wrote; how long to wait stays as it is. Nobody is connected: who was, is expected back.
/// Error(data) when the text is no state, or one of another number of workers.
void read_state(std::string_view text, Roll& roll, Time now);

}  // namespace lockstep::scheduler
