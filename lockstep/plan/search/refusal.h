// The error where nothing fits into memory: how much is missing, and how many devices would do. Pure.
#pragma once

#include <lockstep/plan/search/candidate.h>

namespace lockstep::plan {

/// Throws Error(unsupported). `smallest` is what comes nearest to fitting; `enough` devices would do, if any number
/// does.
[[noreturn]] void refuse(const Task& task, const Candidate& smallest, std::optional<int> enough);

}  // namespace lockstep::plan
