// The test kubelet as a program: `lockstep_test_kubelet --help`.
#include <apps/operator/api/access.h>
#include <lockstep/base/environment.h>
#include <lockstep/base/files.h>
#include <lockstep/base/log.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <thread>

#include "operator/kubelet/kubelet.h"
#include "operator/kubelet/sandbox.h"

namespace {

using namespace lockstep;

int run(const test::KubeletOptions& options) {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::exception_ptr trouble;
  const pthread_t waiter = ::pthread_self();
  {
    std::jthread runner([&](std::stop_token stop) {
      try {
        test::run_kubelet(options, std::move(stop));
      } catch (...) {
        trouble = std::current_exception();
      }
      ::pthread_kill(waiter, SIGHUP);  // blocked there, and waited for
    });
    int signal = 0;
    ::sigwait(&signals, &signal);
  }
  if (trouble) std::rethrow_exception(trouble);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() == 3 && words[0] == "enter") {
      test::enter(test::sandbox_of(nlohmann::json::parse(read_file(words[1]).value())), words[2]);
    }
    CLI::App app("Runs the Pods of one namespace as processes of this machine, for tests and demonstrations.");
    test::KubeletOptions options;
    std::string kubeconfig;
    app.add_option("--kubeconfig", kubeconfig, "How to reach the API server; default: KUBECONFIG")->type_name("FILE");
    app.add_option("--namespace", options.space, "Of the Pods")->required()->type_name("NAME");
    app.add_option("--folder", options.folder,
                   "logs/POD.N.log; FIFO 'commands': kill POD [SIGNAL], stop POD, cont POD, evict POD, lose NODE")
        ->required()
        ->type_name("DIR");
    app.add_option("--claims", options.claims, "A volume claim NAME is the folder NAME in it")->type_name("DIR");
    app.add_option("--path", options.path, "Folders with the containers' programs")->type_name("DIR[:DIR]");
    app.add_option("--node", options.node, "Its nodes are NAME-0, NAME-1, ...")->type_name("NAME");
    app.add_option("--nodes", options.nodes, "How many")->check(CLI::Range(1, 100));
    CLI11_PARSE(app, argc, argv);
    options.folder = std::filesystem::absolute(options.folder);
    if (!options.claims.empty()) options.claims = std::filesystem::absolute(options.claims);
    if (const auto why = test::sandbox_obstacle(); !why.empty()) {
      std::fprintf(stderr, "kubelet: error: %s\n", why.c_str());
      return 1;
    }
    options.access = kube::find_access(kubeconfig, "", current_environment());
    options.program = std::filesystem::read_symlink("/proc/self/exe");
    start_logging({});
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kubelet: error: %s\n", error.what());
    return 127;
  }
}
