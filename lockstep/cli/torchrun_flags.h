// Flags of torchrun that concern what is only in Python, or in its plug-ins: their values are checked, and those that
// would ask for something are refused.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace lockstep::cli {

struct TorchrunFlags {
  std::string start_method = "spawn";
  std::string event_log_handler = "null";
  std::string logs_specs{};
  std::string numa_binding{};
};

void add_torchrun_flags(CLI::App& command, TorchrunFlags& flags);

/// Error(invalid_argument) for a value that torchrun does not have either, and for one that asks for what is not here.
void check_torchrun_flags(const TorchrunFlags& flags);

}  // namespace lockstep::cli
