// The assignment of ranks to members.
#pragma once

#include <lockstep/scheduler/membership.h>

#include <string_view>
#include <vector>

namespace lockstep::scheduler {

/// Whether `a` comes before `b` in natural order: runs of digits count as numbers, so "w2" comes before "w10".
bool natural_less(std::string_view a, std::string_view b);

/// A rank for each member, by its index: the one it has, or a free one.
std::vector<int> choose_ranks(const std::vector<Member>& members);

}  // namespace lockstep::scheduler
