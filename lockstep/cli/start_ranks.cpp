#include <lockstep/cli/start_ranks.h>

#include <cstdio>
#include <filesystem>

namespace lockstep::cli {

std::string this_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

int start_ranks(const cluster::LaunchOptions& options) {
  const cluster::LaunchResult result = cluster::launch(options);
  std::fputs(result.report.c_str(), stderr);
  return result.exit_code;
}

}  // namespace lockstep::cli
