// The error when no layout fits into memory: the missing bytes, and the number of devices that would suffice. Pure.
#pragma once

#include <lockstep/plan/search/candidate.h>

namespace lockstep::plan {

/// Throws Error(unsupported). `smallest` is the candidate that comes nearest to fitting; `enough` is a sufficient
/// number of devices, if one was found.
[[noreturn]] void refuse(const Task& task, const Candidate& smallest, std::optional<int> enough);

}  // namespace lockstep::plan
