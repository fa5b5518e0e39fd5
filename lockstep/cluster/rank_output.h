// The destinations of a rank's output: the launcher's console, a file, both, or nowhere.
#pragma once

#include <lockstep/cluster/stream_choice.h>

#include <filesystem>
#include <set>

namespace lockstep::cluster {

struct OutputOptions {
  StreamChoice redirects{};  ///< into files instead of the console
  StreamChoice tee{};        ///< into files and to the console
  std::set<int> shown{};     ///< local ranks that the console shows; empty: all. Files get those of all ranks
  /// The folder for logs and error files, see LogFolder. Empty: one is made where files are to be kept.
  std::filesystem::path log_dir{};
};

/// The destinations of one stream.
struct Outlet {
  bool console = true;
  std::filesystem::path file{};  ///< empty: none
};

struct RankOutlets {
  Outlet out{};
  Outlet err{};
};

/// `folder` is the rank's own; empty when no files are written.
RankOutlets outlets_of(const OutputOptions& options, int local_rank, const std::filesystem::path& folder);

}  // namespace lockstep::cluster
