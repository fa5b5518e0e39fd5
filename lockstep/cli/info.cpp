// `lockstep info`: what this build is and can do.
#include <lockstep/cli/command.h>
#include <lockstep/cluster/flag_values.h>
#include <lockstep/cluster/store_host.h>
#include <lockstep/comm/backends.h>
#include <lockstep/train/part_kinds.h>
#include <lockstep/world/world.h>

#include <fmt/format.h>
#include <torch/version.h>

#include <CLI/CLI.hpp>
#include <string_view>
#include <vector>

namespace lockstep::cli {
namespace {

std::vector<std::string_view> backends() {
  std::vector<std::string_view> names;
  for (const auto& kind : detail::backends()) {
    if (kind.built) names.push_back(kind.name);
  }
  return names;
}

int print_info() {
  const auto parts = train::shipped_parts();
  fmt::print("lockstep   {} ({} build, {})\n", LOCKSTEP_VERSION, LOCKSTEP_BUILD_TYPE, LOCKSTEP_COMPILER);
  fmt::print("libtorch   {} (built against)\n", TORCH_VERSION);
  fmt::print("backends   {}\n", fmt::join(backends(), ", "));
  fmt::print("launchers  {}\n", fmt::join(launcher_names(), ", "));
  fmt::print("models     {}\n", fmt::join(train::names_of(parts.models), ", "));
  fmt::print("data sets  {}\n", fmt::join(train::names_of(parts.data), ", "));
  fmt::print("here       {} CPUs, {} GPUs\n", usable_cpus(), cluster::usable_gpus());
  return kOk;
}

}  // namespace

void add_info(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("info", "What this build has: libtorch, backends, launchers, models");
  command->callback([&chosen] { chosen = print_info; });
}

}  // namespace lockstep::cli
