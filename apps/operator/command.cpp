// What the operator adds to `lockstep`: `lockstep operator`, the Kubernetes operator that runs the LockstepJobs of a
// cluster; and `lockstep convert` for jobs of other operators.
#include <apps/operator/api/access.h>
#include <apps/operator/command.h>
#include <apps/operator/controller/manifests.h>
#include <apps/operator/controller/operator.h>
#include <apps/operator/job/convert.h>
#include <apps/operator/job/job.h>
#include <apps/operator/job/json.h>
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/log.h>
#include <lockstep/base/text.h>

#include <fmt/format.h>
#include <signal.h>
#include <CLI/CLI.hpp>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace lockstep::kube {
namespace {

constexpr const char* kOperatorFooter =
    "Watches LockstepJobs, makes their Pods, Service, ConfigMap and certificates, restarts what fails, and writes\n"
    "their progress into their status. It can be killed at any time: the next one goes on. Several may run; one of\n"
    "them acts. docs/kubernetes.md describes it.\n"
    "\n"
    "Exit code: 0 after SIGTERM or SIGINT, 1 when another operator has taken over, or the API server refuses this one, "
    "2\n"
    "when the command line or the kubeconfig is wrong.\n"
    "\n"
    "Examples:\n"
    "  lockstep operator --print-crd | kubectl apply -f -     install the resource LockstepJob\n"
    "  lockstep operator                                      for all namespaces, as the current user of kubectl\n"
    "  lockstep operator --namespace team-a                   for one\n"
    "  lockstep operator manifests --out deploy               files that install it in a cluster";

struct OperatorArguments {
  std::string kubeconfig;
  std::string context;
  std::string space;
  std::string lease_space;
  std::string probe_address = "127.0.0.1:0";
  std::string log_level = "info";
  double requests = 20;
  double burst = 50;
  int watch_seconds = 300;
  int progress_seconds = 10;
  bool no_election = false;
  bool print_crd = false;
  double lease_seconds = 15;
  std::string out;
};

void read_probe_address(const std::string& text, OperatorOptions& options) {
  const auto colon = text.rfind(':');
  const auto port = colon == std::string::npos ? std::nullopt : parse_integer(text.substr(colon + 1));
  if (!port || *port < 0 || *port > 65535 || colon == 0) {
    fail(ErrorKind::invalid_argument, "operator", "--probe-address '{}' is not HOST:PORT", text);
  }
  options.probe_host = text.substr(0, colon);
  options.probe_port = static_cast<std::uint16_t>(*port);
}

OperatorOptions options_of(const OperatorArguments& arguments) {
  OperatorOptions options;
  options.access = find_access(arguments.kubeconfig, arguments.context, current_environment());
  options.space = arguments.space;
  options.elect_leader = !arguments.no_election;
  options.lease.space = arguments.lease_space;
  // The ratios of Kubernetes' own controllers: two thirds, and a little more than an eighth.
  const auto lease = std::chrono::milliseconds(static_cast<int>(arguments.lease_seconds * 1000));
  options.lease.duration = lease;
  options.lease.renew_deadline = lease * 2 / 3;
  options.lease.retry = lease * 2 / 15;
  options.requests_per_second = arguments.requests;
  options.burst = arguments.burst;
  options.watch_time = std::chrono::seconds(arguments.watch_seconds);
  options.progress_time = std::chrono::seconds(arguments.progress_seconds);
  read_probe_address(arguments.probe_address, options);
  options.on_start = [](std::uint16_t port) { log_info("/healthz, /readyz and /metrics are on port {}", port); };
  return options;
}

/// Runs until one of these signals arrives, or until the operator ends with an error.
void run_until_signal(const OperatorOptions& options) {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::exception_ptr trouble;
  const pthread_t waiter = ::pthread_self();
  std::atomic<bool> ended{false};
  std::jthread runner([&](std::stop_token stop) {
    try {
      run_operator(options, std::move(stop));
    } catch (...) {
      trouble = std::current_exception();
    }
    ended = true;
    ::pthread_kill(waiter, SIGHUP);  // the thread has blocked SIGHUP, and waits for it
  });
  int signal = 0;
  ::sigwait(&signals, &signal);
  if (!ended) log_info("signal {}: the operator ends; jobs go on without it", signal);
  runner.request_stop();
  runner.join();
  if (trouble) std::rethrow_exception(trouble);
}

int run(const OperatorArguments& arguments) {
  if (arguments.print_crd) {
    fmt::print("{}", print_yaml_of(custom_resource_definition()));
    std::fflush(stdout);
    return cli::kOk;
  }
  const auto options = options_of(arguments);
  LogOptions log;
  log.level = arguments.log_level;
  start_logging(log);
  run_until_signal(options);
  return cli::kOk;
}

int write_manifests(const std::string& folder) {
  namespace fs = std::filesystem;
  for (const auto& [file, objects] : deployment_manifests()) {
    const fs::path path = fs::path(folder) / file;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error)
      fail(ErrorKind::io, "operator", "cannot make the folder '{}': {}", path.parent_path().string(), error.message());
    write_file_atomically(path, print_manifest(objects));
    fmt::print("{}\n", path.string());
  }
  std::fflush(stdout);
  return cli::kOk;
}

constexpr const char* kJobFooter =
    "Writes a LockstepJob. What has no counterpart, or another meaning, is reported on stderr.";

cli::ConvertedFile from_job(const std::string& file, Converted (*converter)(const nlohmann::ordered_json&)) {
  const auto text = read_file(file);
  if (!text) fail(ErrorKind::config, "convert", "cannot read '{}': {}", file, std::strerror(errno));
  cli::ConvertedFile result;
  for (const auto& object : parse_yaml_documents(*text, file)) {
    const auto converted = converter(object);
    if (!result.text.empty()) result.text += "---\n";
    result.text += print_yaml_of(converted.job);
    for (const auto& remark : converted.remarks) result.remarks.push_back(fmt::format("{}: {}", file, remark));
  }
  if (result.text.empty()) fail(ErrorKind::config, "convert", "'{}' holds no object", file);
  return result;
}

cli::Converter job_converter(const char* name, const char* help, const char* example,
                             Converted (*converter)(const nlohmann::ordered_json&)) {
  return {name, help, kJobFooter, example, [converter](const std::string& file) { return from_job(file, converter); }};
}

void add_operator(CLI::App& app, cli::Action& chosen) {
  CLI::App* command = app.add_subcommand("operator", "Run LockstepJobs on Kubernetes");
  const auto arguments = std::make_shared<OperatorArguments>();
  command
      ->add_option("--kubeconfig", arguments->kubeconfig,
                   "How to reach the API server; default: KUBECONFIG, the Pod's "
                   "service account, ~/.kube/config")
      ->type_name("FILE");
  command->add_option("--context", arguments->context, "A context of the kubeconfig")->type_name("NAME");
  command->add_option("--namespace", arguments->space, "Only the jobs of this namespace")->type_name("NAME");
  command->add_option("--probe-address", arguments->probe_address, "Where /healthz, /readyz and /metrics are")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  command->add_option("--requests-per-second", arguments->requests, "Most requests about jobs")
      ->check(CLI::Range(0.1, 10000.0))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--burst", arguments->burst, "Most of them at once")
      ->check(CLI::Range(1.0, 10000.0))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--watch-seconds", arguments->watch_seconds, "How long one watch lasts")
      ->check(CLI::Range(1, 3600))
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--progress-seconds", arguments->progress_seconds,
                   "How often the step is read from a job's scheduler, but not more than two jobs a second; 0: never")
      ->check(CLI::Range(0, 3600))
      ->type_name("N")
      ->capture_default_str();
  command->add_flag("--no-leader-election", arguments->no_election, "Act without a Lease: there is no other operator");
  command
      ->add_option("--lease-seconds", arguments->lease_seconds,
                   "A leader that is silent for this long has lost the Lease")
      ->check(CLI::Range(1.0, 3600.0))
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--lease-namespace", arguments->lease_space,
                   "Where the Lease is; default: that of the jobs, or of the "
                   "kubeconfig")
      ->type_name("NAME");
  command->add_option("--log-level", arguments->log_level, "debug, info, warning, error or off")->capture_default_str();
  command->add_flag("--print-crd", arguments->print_crd, "Print the CustomResourceDefinition, and do nothing else");
  command->footer(kOperatorFooter);
  CLI::App* manifests = command->add_subcommand("manifests", "Write the files that install the operator");
  manifests->add_option("--out", arguments->out, "A folder; made if missing")->required()->type_name("DIR");
  command->callback([=, &chosen] {
    chosen = manifests->parsed() ? cli::Action([=] { return write_manifests(arguments->out); })
                                 : cli::Action([=] { return run(*arguments); });
  });
}

std::vector<cli::Converter> job_converters() {
  return {job_converter("msjob", "MSJobs of the MindSpore operator, as LockstepJobs", "lenet.yaml > job.yaml",
                        convert_msjob),
          job_converter("pytorchjob", "PyTorchJobs of Kubeflow, as LockstepJobs", "mnist.yaml | kubectl apply -f -",
                        convert_pytorchjob),
          job_converter("trainjob", "TrainJobs of Kubeflow's Trainer, as LockstepJobs", "trainjob.yaml > job.yaml",
                        convert_trainjob)};
}

}  // namespace

cli::AppCommands operator_commands() { return {add_operator, job_converters()}; }

}  // namespace lockstep::kube
