// Flags of torchrun about the start method and about features of Python or of plug-ins: their values are
// checked, and values that ask for features which Lockstep lacks are refused.
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
