// `lockstep info`: what this build is and can do.
#include <lockstep/cli/command.h>
#include <lockstep/cluster/process_count.h>
#include <lockstep/cluster/store_host.h>
#include <lockstep/data/dataset.h>
#include <lockstep/models/registry.h>
#include <lockstep/world/world.h>

#include <fmt/format.h>
#include <torch/version.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lockstep::cli {
namespace {

std::vector<std::string> backends() {
  std::vector<std::string> names = {"self", "shm"};
  if (LOCKSTEP_HAS_GLOO) names.emplace_back("gloo");
  if (LOCKSTEP_HAS_MPI) names.emplace_back("mpi");
  if (LOCKSTEP_HAS_GLOO || LOCKSTEP_HAS_MPI) names.emplace_back("hierarchy");
  return names;
}

int print_info() {
  fmt::print("lockstep   {} ({} build, {})\n", LOCKSTEP_VERSION, LOCKSTEP_BUILD_TYPE, LOCKSTEP_COMPILER);
  fmt::print("libtorch   {} (built against)\n", TORCH_VERSION);
  fmt::print("backends   {}\n", fmt::join(backends(), ", "));
  fmt::print("launchers  {}\n", fmt::join(launcher_names(), ", "));
  fmt::print("models     {}\n", fmt::join(models::model_names(), ", "));
  fmt::print("data sets  {}\n", fmt::join(data::dataset_names(), ", "));
  fmt::print("here       {} CPUs, {} GPUs\n", cluster::usable_cpus(), cluster::usable_gpus());
  return kOk;
}

}  // namespace

void add_info(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("info", "What this build has: libtorch, backends, launchers, models");
  command->callback([&chosen] { chosen = print_info; });
}

}  // namespace lockstep::cli
