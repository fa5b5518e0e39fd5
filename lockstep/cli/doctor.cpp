// `lockstep doctor`: checks of this machine for problems that would prevent a job, before a job is started.
#include <lockstep/base/config.h>
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/cli/command.h>
#include <lockstep/cluster/failure.h>
#include <lockstep/comm/doctor/examine_job.h>
#include <lockstep/doctor/checks.h>
#include <lockstep/runner/program_arguments.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/resolved_run.h>
#include <lockstep/world/start.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::cli {
namespace {

constexpr const char* kDoctorFooter =
    "Alone it examines this machine. Started as the job is to be started, with 'lockstep doctor' in the place of the\n"
    "program, the ranks also examine each other: whether all of them register, each host can connect to each other\n"
    "one, names mean the same everywhere, and versions, files and clocks agree. One rank prints what was found, with\n"
    "the failing pair and the fix; a rank that cannot reach the others prints why. docs/doctor.md explains each\n"
    "check.\n"
    "\n"
    "Exit code: 0 when a job will run, 1 when something will break it, 2 when the command line, the configuration or\n"
    "the environment is wrong.\n"
    "\n"
    "Examples:\n"
    "  lockstep doctor\n"
    "  lockstep doctor --config run.yaml              on each node of its parallel.nodes\n"
    "  lockstep run --nproc-per-node 2 lockstep doctor\n"
    "  lockstep run --nodes 10.0.0.1,10.0.0.2 --ctrl_port 9988 lockstep doctor --same ./my_program\n"
    "  mpirun -H a:2,b:2 lockstep doctor --json";

struct DoctorArguments {
  bool json = false;
  std::string config;
  std::vector<std::string> same;
  std::string launcher = "auto";
  std::string wait = "30";
};

std::chrono::milliseconds wait_of(const std::string& text) {
  const auto seconds = parse_number(text);
  constexpr double kDay = 24 * 3600;
  if (!seconds || *seconds < 0.1 || *seconds > kDay) {
    fail(ErrorKind::invalid_argument, "doctor", "--wait must be a number of seconds from 0.1 to {}; got '{}'", kDay,
         text);
  }
  return std::chrono::milliseconds(std::llround(*seconds * 1000));
}

Start start_of(const DoctorArguments& arguments, const KnownParts& parts) {
  StartOptions options;
  options.launcher = arguments.launcher;
  if (!arguments.config.empty()) {
    const train::ResolvedRun config = train::load_run_config(arguments.config, {}, parts);
    options.nodes = train::node_list_of(config.parallel);
    options.devices_per_node = options.nodes.devices_per_node;
  }
  Start start = detect_start(options);
  if (start.world.rendezvous != Rendezvous::scheduler) return start;
  fail(ErrorKind::unsupported, "doctor",
       "workers of a scheduler ({}) cannot be examined together yet: use 'lockstep status', or unset MS_ROLE and start "
       "the doctor on each machine",
       start.world.evidence);
}

/// The world with one rank on each node: here one process represents all ranks of its node.
World one_rank_a_node(const Start& start) {
  World world = start.world;
  world.rank /= start.ranks;
  world.size /= start.ranks;
  world.local_rank = 0;
  world.local_size = 1;
  if (world.size == 1) world.rendezvous = Rendezvous::alone;
  return world;
}

doctor::FactsRequest request_of(const DoctorArguments& arguments, const KnownParts& parts) {
  const Start start = start_of(arguments, parts);
  doctor::FactsRequest request;
  request.world = start.ranks > 1 ? one_rank_a_node(start) : start.world;
  request.environment = current_environment();
  request.way_in = start.ranks > 1 ? describe(start) : describe(start.world);
  request.files.assign(arguments.same.begin(), arguments.same.end());
  if (!arguments.config.empty()) request.files.emplace_back(arguments.config);
  request.wait = wait_of(arguments.wait);
  return request;
}

int examine(const DoctorArguments& arguments, const KnownParts& parts) {
  const doctor::Examination done = doctor::examine_job(request_of(arguments, parts));
  if (done.speaks) {
    const std::string text = arguments.json ? doctor::print_json(done) : doctor::print(done);
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
  if (done.sound) return kOk;
  // For the launcher's report.
  cluster::report_failure("the doctor found what will break a job; it is printed above", "unsound");
  return kFailed;
}

}  // namespace

void add_doctor(CLI::App& app, const KnownParts& parts, Action& chosen) {
  CLI::App* command = app.add_subcommand("doctor", "Find what would prevent a job from running, and print what to do");
  const auto arguments = std::make_shared<DoctorArguments>();
  command->add_flag("--json", arguments->json, "Print one JSON object: whether it is sound, findings, and all facts");
  command
      ->add_option("--config", arguments->config,
                   "A run's YAML file: its nodes are examined, and it must be the same on all")
      ->type_name("FILE");
  command->add_option("--same", arguments->same, "Files that must be the same on all hosts, such as your program")
      ->type_name("FILE");
  command->add_option("--launcher", arguments->launcher, "The launcher:\n" + runner::launcher_choices())
      ->type_name("NAME")
      ->capture_default_str();
  command->add_option("--wait", arguments->wait, "How long ranks wait for each other")
      ->type_name("SECONDS")
      ->capture_default_str();
  command->footer(kDoctorFooter);
  command->callback([=, &chosen] { chosen = [=] { return examine(*arguments, parts); }; });
}

}  // namespace lockstep::cli
