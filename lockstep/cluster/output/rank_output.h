// The destinations of a rank's output: the launcher's console, with a prefix to each line, a file, both, or nowhere.
// And the folder of a job's logs and error files, with torchrun's layout:
//
//   <log_dir>/<rdzv_id, else none>_<random>/attempt_<restart_count>/<local_rank>/{error.json,stdout.log,stderr.log}
#pragma once

#include <lockstep/base/temporary_folder.h>
#include <lockstep/base/unique_fd.h>

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cluster {

/// A set of the standard streams of a rank.
struct Streams {
  bool out = false;
  bool err = false;

  bool operator==(const Streams&) const = default;
};

/// A choice of standard streams for each rank: the values of `--redirects` and `--tee`.
struct StreamChoice {
  Streams rest{};                    ///< for all ranks that `by_rank` does not name
  std::map<int, Streams> by_rank{};  ///< by local rank

  Streams of(int local_rank) const;
  /// Whether any stream of any rank is chosen.
  bool any() const;
};

/// torchrun's grammar: 0 (none), 1 (stdout), 2 (stderr) or 3 (both) for all ranks, or such a value for each of some
/// local ranks, "0:3,1:1", and none for the other ranks. Error(invalid_argument) naming `flag` for anything else, also
/// for a rank that appears twice.
StreamChoice parse_stream_choice(std::string_view flag, std::string_view text);

/// The user's choice of destinations.
struct OutputOptions {
  StreamChoice redirects{};  ///< into files instead of the console
  StreamChoice tee{};        ///< into files and to the console
  std::set<int> shown{};     ///< local ranks that the console shows; empty: all. Files get the output of all ranks
  /// The folder for logs and error files, see LogFolder. Empty: a new folder where files are to be kept.
  std::filesystem::path log_dir{};
  /// Lines with one of these words are also copied to a file of all ranks. Empty: no line is.
  std::vector<std::string> out_filters{};
  std::vector<std::string> err_filters{};

  /// Whether any output goes to a file.
  bool wants_files() const { return redirects.any() || tee.any() || !out_filters.empty() || !err_filters.empty(); }
};

/// The destinations of one stream.
struct Outlet {
  bool console = true;
  std::filesystem::path file{};  ///< empty: none
  /// The file of all ranks for lines that contain one of `words`; empty: none.
  std::filesystem::path filtered{};
  std::vector<std::string> words{};
};

/// The outlets of both streams of a rank.
struct RankOutlets {
  Outlet out{};
  Outlet err{};
};

/// `folder` is the rank's own; empty when no files are written.
RankOutlets outlets_of(const OutputOptions& options, int local_rank, const std::filesystem::path& folder);

/// The prefix of each line that a rank writes to the console.
struct LinePrefix {
  bool shown = true;
  std::string role = "default";
  /// The format of torchrun's TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE, with ${role_name}, ${rank}, ${local_rank} and, in
  /// addition to torchrun, ${host}. Empty: "[rank 1] ", or "[trainer rank 1] " in a role with a name.
  std::string format{};

  std::string of(int rank, int local_rank) const;
};

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

/// The temporary folders of this user's launchers that run now.
std::vector<std::filesystem::path> running_log_folders();

/// Makes an empty folder; deletes the contents of an existing one. Error(io) on failure.
void make_empty_folder(const std::filesystem::path& path);

}  // namespace lockstep::cluster
