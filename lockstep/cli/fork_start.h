// The fast start of `lockstep run` without libtorch, for jobs on this node whose ranks can be forks of a fork server.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::cli {

struct ForkStart {
  std::optional<int> exit_code{};  ///< of the job, or of an error; nullopt: the whole program is to do what was asked
  bool spawn = false;              ///< which is not to try this again
};

/// `words` are those behind "lockstep". Everything that is out of the ordinary (questions, errors, several nodes,
/// programs of other kinds) is left to the whole program: nothing has happened then.
ForkStart start_by_forking(const std::vector<std::string>& words);

}  // namespace lockstep::cli
