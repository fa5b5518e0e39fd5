// The text of a membership, from which a restarted scheduler continues.
#pragma once

#include <lockstep/membership/membership.h>

#include <string>
#include <string_view>

namespace lockstep::membership {

/// The text form of a membership.
std::string print_state(const Membership& membership);

/// Fills in the state that `print_state` wrote, except the time limits. No member is connected: members that were
/// connected are expected to reconnect. Error(data) when the text is not a state, or is the state of another number of
/// workers.
void read_state(std::string_view text, Membership& membership, Time now);

}  // namespace lockstep::membership
