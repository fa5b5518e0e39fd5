// The folder of a run and the paths of its files.
#pragma once

#include <lockstep/train/resolved_run.h>

#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::train {

/// The file for the names of the classes that a run learns, in the order of their numbers: a list of JSON.
inline constexpr const char* kClassesFile = "classes.json";

/// The file for the statistics of a run's training table (samples/table_statistics.h).
inline constexpr const char* kTableFile = "table.json";

class WorkDir {
 public:
  explicit WorkDir(std::filesystem::path path) : path_(std::move(path)) {}

  /// Makes the folder and log/ in it when missing, and checks that a file can be written there. Error(io) naming
  /// system.work_dir and the reason. Ranks may do this at the same time.
  void make() const;

  std::filesystem::path log(int rank) const;  ///< log/rank.N
  std::filesystem::path config() const { return path_ / "config.yaml"; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path loss_curve() const { return path_ / "loss.svg"; }
  std::filesystem::path tensorboard() const { return path_ / "tensorboard"; }
  std::filesystem::path pictures() const { return path_ / "pictures"; }
  std::filesystem::path result() const { return path_ / "result.json"; }
  std::filesystem::path classes() const { return path_ / kClassesFile; }
  std::filesystem::path table() const { return path_ / kTableFile; }
  std::filesystem::path weights() const { return path_ / "model.safetensors"; }

 private:
  std::filesystem::path path_;
};

/// The files and folders that a run of this configuration writes, apart from those of its callbacks.
std::vector<std::filesystem::path> paths_of_run(const ResolvedRun& config);

/// Makes a folder when missing and checks that a file can be written there. Error(io) naming `key` and the reason.
void require_writable_folder(const std::filesystem::path& folder, std::string_view key);

}  // namespace lockstep::train
