// `lockstep scheduler`: the rendezvous of the workers of a job without a launcher.
#include <lockstep/cli/command.h>
#include <lockstep/cli/config_flags.h>
#include <lockstep/runner/run_program.h>

#include <CLI/CLI.hpp>

namespace lockstep::cli {
namespace {

constexpr const char* kSchedulerFooter =
    "The workers are 'lockstep train' (or any program that calls lockstep::init) with MS_ROLE=MS_WORKER and the same\n"
    "MS_SCHED_HOST, MS_SCHED_PORT and MS_WORKER_NUM; they may start in any order. 'lockstep train' with\n"
    "MS_ROLE=MS_SCHED is this command. It ends with the job. docs/scheduler.md describes it.\n"
    "\n"
    "Its port also answers 'lockstep status' and 'curl http://HOST:PORT/v1/status'.\n"
    "\n"
    "Exit code: 0 when all workers are done, 1 when the job failed, 2 when the command line, the configuration or the\n"
    "environment is wrong, 128 + N when signal N ended it.\n"
    "\n"
    "Examples:\n"
    "  MS_WORKER_NUM=8 MS_SCHED_HOST=127.0.0.1 MS_SCHED_PORT=6667 lockstep scheduler\n"
    "  lockstep scheduler cluster.worker_num=8 cluster.sched_host=127.0.0.1 cluster.sched_port=6667\n"
    "  lockstep scheduler --config run.yaml                    with the settings of its section 'cluster'";

}  // namespace

void add_scheduler(CLI::App& app, const KnownParts& parts, Action& chosen) {
  CLI::App* command = app.add_subcommand("scheduler", "Bring together the workers of a job that has no launcher");
  const auto config = add_cluster_config(*command);
  command->footer(kSchedulerFooter);
  command->callback(
      [=, &chosen] { chosen = [=] { return runner::run_scheduler(read_cluster_options(*config, parts)); }; });
}

}  // namespace lockstep::cli
