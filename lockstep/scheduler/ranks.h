// The order of ranks.
#pragma once

#include <lockstep/scheduler/roll.h>

#include <string_view>
#include <vector>

namespace lockstep::scheduler {

/// Whether people would name `a` before `b`: runs of digits count as numbers, so "w2" comes before "w10".
bool natural_less(std::string_view a, std::string_view b);

/// A rank for each member, by its index: the one it has, or one of those that are free.
std::vector<int> choose_ranks(const std::vector<Member>& members);

}  // namespace lockstep::scheduler
