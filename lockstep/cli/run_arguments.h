// The options of `lockstep run` and `lockstep launch`: about PROGRAM (how it is run, its output, and those that are
// accepted as torchrun's), all of them together, and the launch options made from them.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/cli/node_flags.h>
#include <lockstep/cluster/flag_values.h>
#include <lockstep/cluster/launch.h>
#include <lockstep/cluster/output/rank_output.h>
#include <lockstep/cluster/rank_start.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::cli {

/// The conventions of a command: those of torch.distributed.run or of torch.distributed.launch.
enum class LaunchStyle { run, launch };

struct ProgramFlags {
  bool module = false;
  bool no_python = false;
  bool run_path = false;
  bool use_env = false;
  std::optional<std::string> local_rank_option{};  ///< of LaunchStyle::launch; nullopt: "local-rank", for Python only
};

void add_program_flags(CLI::App& command, LaunchStyle style, ProgramFlags& flags);

/// `words` are PROGRAM and its arguments. Error(invalid_argument) when they are empty, or for flags that contradict
/// each other.
cluster::RankProgram program_of(const ProgramFlags& flags, LaunchStyle style, std::vector<std::string> words);

/// The options of `lockstep run` about the output of ranks: files, console, and prefix.
struct OutputFlags {
  std::string log_dir;
  std::string redirects = "0";
  std::string tee = "0";
  std::string local_ranks_filter;
  std::string role = "default";
  std::string out_filters;
  std::string err_filters;
  bool no_prefix = false;
};

void add_output_flags(CLI::App& command, OutputFlags& flags);

/// Error(invalid_argument) for invalid values.
cluster::OutputOptions output_of(const OutputFlags& flags);

/// Reads TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE too.
cluster::LinePrefix prefix_of(const OutputFlags& flags, const Environment& environment);

/// One line for each flag that names local ranks outside `processes`; another node may have these ranks.
std::vector<std::string> missing_ranks(const cluster::OutputOptions& output, int processes);

/// Flags of torchrun about the start method and about features of Python or of plug-ins: their values are
/// checked, and values for features that Lockstep lacks are rejected.
struct TorchrunFlags {
  std::string start_method{};
  std::string event_log_handler = "null";
  std::string logs_specs{};
  std::string numa_binding{};
  bool virtual_local_rank = false;
};

void add_torchrun_flags(CLI::App& command, TorchrunFlags& flags);

/// Error(invalid_argument) for a value that torchrun rejects, too, and for a feature that Lockstep lacks.
void check_torchrun_flags(const TorchrunFlags& flags);

/// Error(invalid_argument) when CUDA_VISIBLE_DEVICES has fewer devices than the node has ranks with one device each.
void check_virtual_local_rank(const TorchrunFlags& flags, int processes, const Environment& environment);

/// How processes are to be started; `flags` have been checked.
cluster::StartMethod start_method_of(const TorchrunFlags& flags);

/// The options of `lockstep run` about the live page of the job.
struct PageFlags {
  std::string address{};  ///< [HOST:]PORT; empty: there is no page
  bool can_kill = false;
};

void add_page_flags(CLI::App& command, PageFlags& flags);

/// nullopt: there is no page. Error(invalid_argument) for an invalid address, and for --dashboard-kill without a page.
std::optional<cluster::LivePageOptions> page_of(const PageFlags& flags);

/// All of them.
struct RunArguments {
  std::string processes;  ///< empty: 1
  std::string servers = "0";
  std::string grace;             ///< empty: the value of shutdown_timeout
  std::string shutdown_timeout;  ///< empty: TORCH_ELASTIC_SHUTDOWN_TIMEOUT, or 30
  std::string signals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";
  PageFlags page;
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
