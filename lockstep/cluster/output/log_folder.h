// The folder of a job's logs and error files, with torchrun's layout:
//
//   <log_dir>/<rdzv_id, else none>_<random>/attempt_<restart_count>/<local_rank>/{error.json,stdout.log,stderr.log}
#pragma once

#include <lockstep/base/temporary_folder.h>
#include <lockstep/base/unique_fd.h>
#include <lockstep/cluster/output/rank_output.h>

#include <filesystem>
#include <optional>
#include <string_view>

namespace lockstep::cluster {

/// The folder of one job. It stays on disk when the user named a log_dir or wants streams in files; otherwise it holds
/// only the ranks' error files, in the system's temporary folder, and is removed with this object. Making a folder also
/// removes the folders of killed launchers.
class LogFolder {
 public:
  /// Makes the folder. Error(invalid_argument) when log_dir is a file (but /dev/null: no files at all), Error(io) when
  /// it cannot be made.
  LogFolder(const OutputOptions& options, std::string_view run_id);

  /// <log_dir>/<run_id>_<random>; empty: there are no files.
  const std::filesystem::path& path() const noexcept { return path_; }

  bool stays() const noexcept { return !temporary_ && !path_.empty(); }

  /// The folder of the attempt after this number of restarts, for Launch::folder; not made yet.
  std::filesystem::path attempt(int restart_count) const;

 private:
  std::optional<TemporaryFolder> temporary_;
  UniqueFd lock_;  ///< a lock on the temporary folder, which shows that it is in use
  std::filesystem::path path_;
};

/// Makes an empty folder; deletes the contents of an existing one. Error(io) on failure.
void make_empty_folder(const std::filesystem::path& path);

}  // namespace lockstep::cluster
