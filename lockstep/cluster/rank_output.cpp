#include <lockstep/cluster/rank_output.h>

namespace lockstep::cluster {
namespace {

Outlet outlet(bool shown, bool redirected, bool teed, const std::filesystem::path& file) {
  return {shown && (teed || !redirected), redirected || teed ? file : std::filesystem::path()};
}

}  // namespace

RankOutlets outlets_of(const OutputOptions& options, int local_rank, const std::filesystem::path& folder) {
  const bool shown = options.shown.empty() || options.shown.contains(local_rank);
  const Streams redirected = options.redirects.of(local_rank);
  const Streams teed = options.tee.of(local_rank);
  const auto in_folder = [&](const char* name) { return folder.empty() ? folder : folder / name; };
  return {outlet(shown, redirected.out, teed.out, in_folder("stdout.log")),
          outlet(shown, redirected.err, teed.err, in_folder("stderr.log"))};
}

}  // namespace lockstep::cluster
