// The progress of a rank as text.
#pragma once

#include <lockstep/base/status_page.h>

#include <string>

namespace lockstep {

/// A predicate for the subject "it": "had completed step 12 and was in all_reduce 40 of group "world", which it began
/// 4.2 s before". Empty when no progress was recorded.
std::string describe(const RankProgress& progress);

/// Whether two ranks are at the same step and collective; times are ignored.
bool same_place(const RankProgress& one, const RankProgress& other);

}  // namespace lockstep
