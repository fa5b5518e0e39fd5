// `lockstep calibrate`: measures this machine and writes the description of a cluster that the planner reads.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/log.h>
#include <lockstep/cli/command.h>
#include <lockstep/comm/device/devices.h>
#include <lockstep/comm/group.h>
#include <lockstep/plan/cluster.h>
#include <lockstep/plan/measure/measure.h>
#include <lockstep/train/modes/forward.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::cli {
namespace {

constexpr const char* kCalibrateFooter =
    "Measures matrix products, convolutions, memory and operators on each rank while all are busy and, under a\n"
    "launcher, what collectives take between ranks of one host and between hosts. Alone it measures one device, and\n"
    "links keep a guess. All of it is done --repeat times: the file gets the medians, and as comments how far the\n"
    "measurements differ. A machine that is busy with something else shows in that, with a warning. Takes some\n"
    "seconds each time; start it as the run will be started, with nothing else on the machine.\n"
    "\n"
    "Examples:\n"
    "  lockstep run --nproc-per-node 2 lockstep calibrate --out cluster.yaml\n"
    "  mpirun -n 2 lockstep calibrate --out cluster.yaml --threads 4\n"
    "  lockstep run --nproc-per-node gpu lockstep calibrate --out gpus.yaml --device cuda --autocast bfloat16\n"
    "  lockstep plan --config run.yaml --devices 16 --cluster cluster.yaml";

struct CalibrateArguments {
  std::string out;
  std::string backend = "auto";
  std::string device = "cpu";
  std::string autocast = "none";
  int repeat = 3;
  plan::MeasureOptions measure;
};

void require_device(const std::string& device) {
  if (device == "cpu") return;
  const auto devices = lockstep::detail::cuda_devices();
  if (devices.count > 0) return;
  fail(ErrorKind::invalid_argument, "calibrate",
       "--device {} was requested, but this libtorch finds {}; use --device cpu", device, describe(devices));
}

int calibrate(const CalibrateArguments& arguments) {
  require_device(arguments.device);
  GroupOptions options;
  options.backend = arguments.backend;
  options.device = arguments.device;
  const Group group = init(options);
  // Before the measurement, which takes long.
  if (group.rank() == 0) require_writable_file(arguments.out, "--out");
  auto measure = arguments.measure;
  measure.dtype = train::autocast_dtype(arguments.autocast, arguments.device != "cpu").value_or(at::kFloat);
  std::vector<plan::Cluster> measured;
  for (int i = 0; i < arguments.repeat; ++i) measured.push_back(plan::measure_cluster(group, measure));
  if (group.rank() != 0) return kOk;
  const auto middle = plan::middle_of(measured);
  const auto text = plan::print_cluster(middle.cluster) + plan::spread_comment(middle, measured.size());
  write_file_atomically(arguments.out, text);
  fmt::print("{}", text);
  if (const auto words = plan::disturbance(middle); !words.empty()) log_warning("calibrate: {}", words);
  return kOk;
}

}  // namespace

void add_calibrate(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("calibrate", "Measure this machine for 'lockstep plan'");
  const auto arguments = std::make_shared<CalibrateArguments>();
  command->add_option("--out", arguments->out, "The YAML file to write")->required()->type_name("FILE");
  command->add_option("--threads", arguments->measure.threads, "Threads of each rank, as system.threads of the run")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--rounds", arguments->measure.rounds, "Rounds of each measurement; the median counts")
      ->type_name("N")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--repeat", arguments->repeat,
                   "How often everything is measured; the medians count, and the spread is printed")
      ->type_name("N")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command->add_option("--backend", arguments->backend, "As parallel.backend of the run")
      ->type_name("NAME")
      ->capture_default_str();
  command
      ->add_option("--device", arguments->device,
                   "What is measured: cpu, or cuda for the device of each rank's local rank")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command
      ->add_option("--autocast", arguments->autocast,
                   "Dtype of products and convolutions, as model.autocast of the run")
      ->check(CLI::IsMember({"none", "bfloat16", "float16", "O0", "O2", "O3"}))
      ->capture_default_str();
  command->footer(kCalibrateFooter);
  command->callback([=, &chosen] { chosen = [=] { return calibrate(*arguments); }; });
}

}  // namespace lockstep::cli
