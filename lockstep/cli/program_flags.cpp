// Flags of `lockstep run` about PROGRAM, its output and its live page, with their checks and the launch options made
// from them.
#include <lockstep/base/error.h>
#include <lockstep/cli/command.h>
#include <lockstep/cli/node_flags.h>
#include <lockstep/cli/run_arguments.h>
#include <lockstep/cluster/flag_values.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::cli {
namespace {

constexpr const char* kGroup = "Program";

cluster::ProgramKind kind_of(const ProgramFlags& flags) {
  using cluster::ProgramKind;
  if (flags.module && flags.no_python) refuse("--module and --no_python contradict: a module is run by Python");
  if (flags.module && flags.run_path) refuse("--module and --run_path contradict: PROGRAM is a module or a path");
  if (flags.module) return ProgramKind::module;
  if (flags.run_path) return ProgramKind::script;
  return flags.no_python ? ProgramKind::executable : ProgramKind::detect;
}

void require_one_of(std::string_view flag, std::string_view value, const std::vector<std::string_view>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
  refuse("{} '{}' is none of {}", flag, value, fmt::join(allowed, ", "));
}

}  // namespace

void add_program_flags(CLI::App& command, LaunchStyle style, ProgramFlags& flags) {
  command.add_flag("-m,--module", flags.module, "PROGRAM is a Python module: python3 -m PROGRAM")->group(kGroup);
  command
      .add_flag("--no-python", flags.no_python,
                "PROGRAM runs by itself, whatever it is called (otherwise Python runs *.py that is not executable)")
      ->group(kGroup);
  command.add_flag("--run-path", flags.run_path, "Python runs PROGRAM, whatever it is called")->group(kGroup);
  if (style == LaunchStyle::run) {
    command.add_flag("--use-env", flags.use_env, "Always so: ranks read LOCAL_RANK from the environment")
        ->group(kGroup);
    return;
  }
  command
      .add_flag("--use-env", flags.use_env,
                "Ranks read LOCAL_RANK from the environment; do not pass --local-rank=N to a Python script")
      ->group(kGroup);
  command
      .add_option("--local-rank-name", flags.local_rank_option,
                  "What PROGRAM calls it (local-rank; scripts for PyTorch 1 expect local_rank). Given, programs that "
                  "are not Python get it too")
      ->type_name("NAME")
      ->group(kGroup);
}

cluster::RankProgram program_of(const ProgramFlags& flags, LaunchStyle style, std::vector<std::string> words) {
  if (words.empty()) {
    refuse("{}", style == LaunchStyle::run ? "no PROGRAM given; see 'lockstep run --help'"
                                           : "no PROGRAM given; see 'lockstep launch --help'");
  }
  cluster::RankProgram program;
  program.kind = kind_of(flags);
  if (style == LaunchStyle::launch && !flags.use_env) {
    if (flags.no_python) {
      refuse(
          "'launch' with --no_python needs --use_env: only Python scripts expect --local-rank as their first argument");
    }
    if (flags.local_rank_option == "") refuse("--local_rank_name must not be empty; --use_env passes none");
  }
  program.command = std::move(words);
  const bool passes = style == LaunchStyle::launch && !flags.use_env;
  if (passes && (flags.local_rank_option || cluster::is_python(program, current_environment()))) {
    program.local_rank_option = flags.local_rank_option.value_or("local-rank");
  }
  return program;
}

void add_output_flags(CLI::App& command, OutputFlags& flags) {
  constexpr const char* kGroup = "Output";
  const auto add = [&](const std::string& name, std::string& value, const std::string& about, const std::string& type) {
    return command.add_option(name, value, about)->type_name(type)->group(kGroup);
  };
  add("--log-dir", flags.log_dir,
      "Error files, and the streams that -r and -t name, go to "
      "DIR/<rdzv_id>_<random>/attempt_<N>/<local rank>/; /dev/null: no files",
      "DIR");
  add("-r,--redirects", flags.redirects,
      "Streams that go to files instead of the console: 0 none, 1 stdout, 2 stderr, 3 both, or for each local rank, as "
      "in 0:3,1:1",
      "STREAMS")
      ->capture_default_str();
  add("-t,--tee", flags.tee, "Streams that go to files and to the console", "STREAMS")->capture_default_str();
  add("--local-ranks-filter", flags.local_ranks_filter, "The console shows only these local ranks; files get all",
      "N,N,...");
  add("--duplicate-stdout-filters", flags.out_filters,
      "Copy lines of stdout that contain one of these words to attempt_<N>/filtered_stdout.log as well; ',,' is a "
      "comma",
      "WORD,WORD,...");
  add("--duplicate-stderr-filters", flags.err_filters, "The same for stderr, to filtered_stderr.log", "WORD,WORD,...");
  add("--role", flags.role, "ROLE_NAME of the ranks, and part of the prefix; the same on all nodes", "NAME")
      ->capture_default_str();
  command.add_flag("--no-prefix", flags.no_prefix, "Do not put '[rank N] ' before each line of output")->group(kGroup);
}

cluster::OutputOptions output_of(const OutputFlags& flags) {
  cluster::OutputOptions output;
  output.redirects = cluster::parse_stream_choice("--redirects", flags.redirects);
  output.tee = cluster::parse_stream_choice("--tee", flags.tee);
  output.shown = cluster::parse_local_ranks("--local_ranks_filter", flags.local_ranks_filter);
  output.log_dir = flags.log_dir;
  output.out_filters = cluster::parse_line_filters(flags.out_filters);
  output.err_filters = cluster::parse_line_filters(flags.err_filters);
  return output;
}

cluster::LinePrefix prefix_of(const OutputFlags& flags, const Environment& environment) {
  if (flags.role.empty()) refuse("--role must not be empty; leave it out for 'default'");
  return {!flags.no_prefix, flags.role, find(environment, "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE").value_or("")};
}

std::vector<std::string> missing_ranks(const cluster::OutputOptions& output, int processes) {
  std::vector<std::string> lines;
  const auto look = [&](std::string_view flag, int highest) {
    if (highest < processes) return;
    lines.push_back(fmt::format("{} names local rank {}, but here they are 0 to {}", flag, highest, processes - 1));
  };
  const auto look_in = [&](std::string_view flag, const cluster::StreamChoice& choice) {
    if (!choice.by_rank.empty()) look(flag, choice.by_rank.rbegin()->first);
  };
  look_in("--redirects", output.redirects);
  look_in("--tee", output.tee);
  if (!output.shown.empty()) look("--local_ranks_filter", *output.shown.rbegin());
  return lines;
}

void add_torchrun_flags(CLI::App& command, TorchrunFlags& flags) {
  const auto add = [&](const std::string& name, std::string& value, const std::string& about) {
    return command.add_option(name, value, about)->type_name("NAME")->group("Accepted as torchrun's");
  };
  add("--start-method", flags.start_method,
      "forkserver: a program that uses Lockstep is loaded once, and its ranks are forks (default, where that is "
      "possible); spawn: each rank is started by itself; fork: as forkserver");
  add("--event-log-handler", flags.event_log_handler, "null is the only one here")->capture_default_str();
  add("--logs-specs", flags.logs_specs, "default is the only one here: plug-ins are Python's");
  add("--numa-binding", flags.numa_binding, "Refused: ranks are not bound to the CPUs near a GPU here");
  command
      .add_flag("--virtual-local-rank", flags.virtual_local_rank,
                "LOCAL_RANK is 0 for all ranks, and each sees one GPU (CUDA_VISIBLE_DEVICES)")
      ->group("Accepted as torchrun's");
}

void check_torchrun_flags(const TorchrunFlags& flags) {
  if (!flags.start_method.empty()) {
    require_one_of("--start_method", flags.start_method, {"spawn", "fork", "forkserver"});
  }
  if (flags.event_log_handler != "null") {
    refuse("--event_log_handler '{}' would be a Python plug-in, and there is no Python in this launcher; there is null",
           flags.event_log_handler);
  }
  if (!flags.logs_specs.empty() && flags.logs_specs != "default") {
    refuse(
        "--logs_specs '{}' would be a Python plug-in, and there is no Python in this launcher; --log_dir, "
        "--redirects and --tee set where output goes",
        flags.logs_specs);
  }
  if (flags.numa_binding.empty()) return;
  require_one_of("--numa_binding", flags.numa_binding, {"node", "socket", "exclusive", "core-complex"});
  refuse(
      "--numa_binding {} is not part of this version: it binds each rank to the CPUs near its GPU; start the ranks "
      "under numactl instead, as in 'lockstep run --no_python numactl --cpunodebind=${{local_rank}} PROGRAM'",
      flags.numa_binding);
}

void check_virtual_local_rank(const TorchrunFlags& flags, int processes, const Environment& environment) {
  const auto given = find(environment, "CUDA_VISIBLE_DEVICES").value_or("");
  if (!flags.virtual_local_rank || given.empty()) return;
  const auto devices = std::count(given.begin(), given.end(), ',') + 1;
  if (devices >= processes) return;
  refuse("--virtual_local_rank gives each rank a device of its own, and CUDA_VISIBLE_DEVICES={} has {} for {} ranks",
         given, devices, processes);
}

cluster::StartMethod start_method_of(const TorchrunFlags& flags) {
  if (flags.start_method.empty()) return cluster::StartMethod::automatic;
  return flags.start_method == "spawn" ? cluster::StartMethod::spawn : cluster::StartMethod::fork_server;
}

void add_page_flags(CLI::App& command, PageFlags& flags) {
  command.add_option("--dashboard", flags.address, kDashboardHelp)
      ->type_name("[[HOST:]PORT]")
      ->expected(0, 1)
      ->group("Live page");
  command.add_flag("--dashboard-kill", flags.can_kill, "The page may kill ranks")->group("Live page");
}

std::optional<cluster::LivePageOptions> page_of(const PageFlags& flags) {
  if (flags.address.empty()) {
    if (flags.can_kill) refuse("--dashboard-kill is about the page of --dashboard, which is not given");
    return std::nullopt;
  }
  return cluster::LivePageOptions{dashboard::parse_page_address(flags.address, "--dashboard"), flags.can_kill};
}

}  // namespace lockstep::cli
