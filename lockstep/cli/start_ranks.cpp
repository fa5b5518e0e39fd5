#include <lockstep/cli/start_ranks.h>

#include <cstdio>

namespace lockstep::cli {

int start_ranks(const cluster::LaunchOptions& options) {
  const cluster::LaunchResult result = cluster::launch(options);
  std::fputs(result.report.c_str(), stderr);
  return result.exit_code;
}

}  // namespace lockstep::cli
