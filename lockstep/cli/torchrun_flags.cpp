#include <lockstep/base/error.h>
#include <lockstep/cli/torchrun_flags.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <vector>

namespace lockstep::cli {
namespace {

void require_one_of(std::string_view flag, std::string_view value, const std::vector<std::string_view>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
  fail(ErrorKind::invalid_argument, "run", "{} '{}' is none of {}", flag, value, fmt::join(allowed, ", "));
}

}  // namespace

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
}

void check_torchrun_flags(const TorchrunFlags& flags) {
  if (!flags.start_method.empty()) {
    require_one_of("--start_method", flags.start_method, {"spawn", "fork", "forkserver"});
  }
  if (flags.event_log_handler != "null") {
    fail(ErrorKind::invalid_argument, "run",
         "--event_log_handler '{}' would be a Python plug-in, and there is no Python in this launcher; there is null",
         flags.event_log_handler);
  }
  if (!flags.logs_specs.empty() && flags.logs_specs != "default") {
    fail(ErrorKind::invalid_argument, "run",
         "--logs_specs '{}' would be a Python plug-in, and there is no Python in this launcher; --log_dir, --redirects "
         "and --tee say where output goes",
         flags.logs_specs);
  }
  if (flags.numa_binding.empty()) return;
  require_one_of("--numa_binding", flags.numa_binding, {"node", "socket", "exclusive", "core-complex"});
  fail(ErrorKind::invalid_argument, "run",
       "--numa_binding {} is not part of this version: it binds each rank to the CPUs near its GPU; start the ranks "
       "under numactl instead, as in 'lockstep run --no_python numactl --cpunodebind=${{local_rank}} PROGRAM'",
       flags.numa_binding);
}

cluster::StartMethod start_method_of(const TorchrunFlags& flags) {
  if (flags.start_method.empty()) return cluster::StartMethod::automatic;
  return flags.start_method == "spawn" ? cluster::StartMethod::spawn : cluster::StartMethod::fork_server;
}

}  // namespace lockstep::cli
