// Flags of torchrun about how processes are made, and about what is only in Python or in its plug-ins: their values are
// checked, and those that would ask for what is not here are refused.
#pragma once

#include <lockstep/cluster/launch.h>

#include <string>

namespace CLI {
class App;
}

namespace lockstep::cli {

struct TorchrunFlags {
  std::string start_method{};
  std::string event_log_handler = "null";
  std::string logs_specs{};
  std::string numa_binding{};
};

void add_torchrun_flags(CLI::App& command, TorchrunFlags& flags);

/// Error(invalid_argument) for a value that torchrun does not have either, and for one that asks for what is not here.
void check_torchrun_flags(const TorchrunFlags& flags);

/// How processes are to be started; `flags` have been checked.
cluster::StartMethod start_method_of(const TorchrunFlags& flags);

}  // namespace lockstep::cli
