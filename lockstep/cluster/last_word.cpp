#include <lockstep/cluster/last_word.h>

#include <fmt/core.h>

#include <algorithm>

namespace lockstep::cluster {

void leave_last_word(LaunchResult& result, const Job& job, const LogFolder& logs, const Environment& environment) {
  const auto first = std::find_if(result.ends.begin(), result.ends.end(),
                                  [&](const RankEnd& end) { return end.rank == result.first_failed; });
  if (first != result.ends.end()) {
    pass_on_failure(error_file_of(job, first->rank - job.first_rank), first->status, result.report, environment);
  } else {
    pass_on_failure({}, {result.exit_code, 0}, result.report, environment);
  }
  if (logs.stays()) result.report += fmt::format("  logs: {}\n", logs.path().string());
}

}  // namespace lockstep::cluster
