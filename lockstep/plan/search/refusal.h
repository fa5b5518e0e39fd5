// Nothing fits into memory: how far from it, and what would do. Pure.
#pragma once

#include <lockstep/plan/search/candidate.h>

namespace lockstep::plan {

/// Throws Error(unsupported). `smallest` is what comes nearest to fitting.
[[noreturn]] void refuse(const Task& task, const Candidate& smallest);

}  // namespace lockstep::plan
