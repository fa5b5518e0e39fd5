// The prefix of each line that a rank writes to the console.
#pragma once

#include <string>

namespace lockstep::cluster {

struct LinePrefix {
  bool shown = true;
  std::string role = "default";
  /// torchrun's TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE, with ${role_name}, ${rank}, ${local_rank} and, beyond torchrun,
  /// ${host}. Empty: "[rank 1] ", or "[trainer rank 1] " in a role with a name.
  std::string format{};

  std::string of(int rank, int local_rank) const;
};

}  // namespace lockstep::cluster
