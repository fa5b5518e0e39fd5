// All options of `lockstep run` and `lockstep launch`, and the launch options made from them.
#pragma once

#include <lockstep/cli/node_flags.h>
#include <lockstep/cli/program_flags.h>
#include <lockstep/cluster/flag_values.h>
#include <lockstep/cluster/launch.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::cli {

struct RunArguments {
  std::string processes;  ///< empty: 1
  std::string servers = "0";
  std::string grace;             ///< empty: the value of shutdown_timeout
  std::string shutdown_timeout;  ///< empty: TORCH_ELASTIC_SHUTDOWN_TIMEOUT, or 30
  std::string signals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";
  NodeFlags nodes;
  MsrunFlags msrun;
  ProgramFlags program;
  OutputFlags output;
  TorchrunFlags torchrun;
};

struct RunCommand {
  CLI::App* command;
  std::shared_ptr<RunArguments> arguments;
};

/// Adds the command `run` or `launch`.
RunCommand add_run_command(CLI::App& app, LaunchStyle style);

/// The environment of this process, for the options of a job.
struct Surroundings {
  cluster::Processors processors{};
  std::filesystem::path whole_program{};  ///< the executable of PROGRAM "lockstep", or of a path to this program
};

/// Converts arguments of other launchers (msrun's flags, lists of hosts) to those of `lockstep run`; to be called
/// before the arguments are used. Error(invalid_argument) for flags that break a rule.
void translate_arguments(RunArguments& arguments, const Environment& environment);

/// The options of the job, except its nodes (first_rank_of). `program` are PROGRAM ARGS... Error(invalid_argument) for
/// flags that break a rule, Error(environment) when an outer launcher would start the job several times.
cluster::LaunchOptions launch_options_of(const RunArguments& arguments, LaunchStyle style,
                                         std::vector<std::string> program, const Surroundings& here);

/// Remarks for stderr on possible mistakes: flags for ranks that do not exist, a local rank that is not passed, an
/// outer launcher.
std::vector<std::string> remarks_on(const RunArguments& arguments, LaunchStyle style,
                                    const cluster::LaunchOptions& options, const Surroundings& here);

void tell(const std::vector<std::string>& remarks);

}  // namespace lockstep::cli
