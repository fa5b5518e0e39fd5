// The progress of a rank as text.
#pragma once

#include <lockstep/base/status_page.h>

#include <string>

namespace lockstep {

/// To follow "it": "had completed step 12 and was in all_reduce 40 of group "world", which it began 4.2 s before".
/// Empty when its page says nothing.
std::string describe(const RankProgress& progress);

/// The same place, whenever they came there.
bool same_place(const RankProgress& one, const RankProgress& other);

}  // namespace lockstep
