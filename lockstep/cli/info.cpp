// `lockstep info`: the version and the features of this build.
#include <lockstep/cli/command.h>
#include <lockstep/cli/programs.h>
#include <lockstep/cluster/c10d_store_host.h>
#include <lockstep/cluster/flag_values.h>
#include <lockstep/comm/backends.h>
#include <lockstep/comm/device/devices.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/parts.h>
#include <lockstep/world/world.h>

#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
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

/// "13.0, cuDNN 9.19.0, NCCL 2.28.9": of the libraries that libtorch has loaded, which needs no device.
std::string cuda_libraries() {
  const auto& cuda = at::detail::getCUDAHooks();
  if (!cuda.hasCUDART()) return "none: this libtorch is for CPUs";
  auto text = detail::cuda_version();
  if (cuda.hasCuDNN()) {
    const auto number = cuda.versionCuDNN();  // 8907 for version 8, 90100 for version 9
    const auto major = number < 90000 ? number / 1000 : number / 10000;
    const auto rest = number < 90000 ? number % 1000 : number % 10000;
    text += fmt::format(", cuDNN {}.{}.{}", major, rest / 100, rest % 100);
  }
  using Version = int (*)(int*);
  const auto nccl = reinterpret_cast<Version>(dlsym(RTLD_DEFAULT, "ncclGetVersion"));
  if (int number = 0; nccl != nullptr && nccl(&number) == 0) {
    text += fmt::format(", NCCL {}.{}.{}", number / 10000, number % 10000 / 100, number % 100);
  }
  return text;
}

std::string gpus() {
  const int count = cluster::usable_gpus();
  return count == 0 ? "no GPU" : fmt::format("{} GPU{}", count, count == 1 ? "" : "s");
}

/// A file in a folder above the program: `installed` in the install prefix, `built` in the source tree. Empty: not
/// found.
std::string file_above(const char* installed, const char* built) {
  std::error_code unknown;
  const auto program = this_program();
  for (auto above = program.parent_path(); above.has_relative_path(); above = above.parent_path()) {
    for (const auto* name : {installed, built}) {
      if (const auto file = above / name; std::filesystem::exists(file, unknown)) return file.string();
    }
  }
  return "";
}

void print_folder(const char* what, const char* installed, const char* built) {
  const std::filesystem::path file = file_above(installed, built);
  fmt::print("{:<10} {}\n", what, file.empty() ? "not installed" : file.parent_path().string());
}

int print_info(const train::Parts& parts) {
  fmt::print("lockstep   {} ({} build, {})\n", LOCKSTEP_VERSION, LOCKSTEP_BUILD_TYPE, LOCKSTEP_COMPILER);
  fmt::print("libtorch   {} (built against)\n", TORCH_VERSION);
  fmt::print("CUDA       {}\n", cuda_libraries());
  fmt::print("backends   {}\n", fmt::join(backends(), ", "));
  fmt::print("launchers  {}\n", fmt::join(launcher_names(), ", "));
  fmt::print("models     {}\n", fmt::join(train::names_of(parts.models), ", "));
  fmt::print("data sets  {}\n", fmt::join(train::names_of(parts.data), ", "));
  fmt::print("here       {} CPUs, {}\n", usable_cpus(), gpus());
  // The check is for a file in each folder, so that other folders of these names do not match.
  print_folder("configs", "share/lockstep/configs/mlp_mnist.yaml", "configs/mlp_mnist.yaml");
  print_folder("examples", "share/lockstep/examples/own_model.cpp", "examples/own_model.cpp");
  print_folder("docs", "share/doc/lockstep/docs/tutorial.md", "docs/tutorial.md");
  return kOk;
}

}  // namespace

void add_info(CLI::App& app, const KnownParts& parts, Action& chosen) {
  CLI::App* command = app.add_subcommand(
      "info", "What this build has: libtorch, backends, launchers, models, and where configs, examples and docs are");
  command->callback([=, &chosen] { chosen = [=] { return print_info(*parts); }; });
}

}  // namespace lockstep::cli
