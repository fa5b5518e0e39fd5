// The way from options to a running process: fork, prepare, exec. Internal to process.h.
#pragma once

#include <lockstep/base/process.h>

namespace lockstep::detail {

struct Spawned {
  pid_t pid = -1;
  UniqueFd pidfd;
  UniqueFd out;
  UniqueFd err;
};

/// Returns once the program runs; throws as Child's constructor does, with nothing left behind.
Spawned spawn(const ChildOptions& options);

}  // namespace lockstep::detail
