// The choice between model.safetensors and the newest checkpoint of a run folder, by the time of writing.
#include <lockstep/state/checkpoint_folder.h>
#include <lockstep/state/sharded/index.h>
#include <lockstep/train/checkpoint/run_folder.h>

#include <optional>
#include <system_error>
#include <vector>

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFinalWeights = "model.safetensors";
constexpr const char* kCheckpointsFolder = "checkpoints";

std::optional<fs::path> newest_checkpoint(const fs::path& folder) {
  const auto all = list_checkpoints(folder / kCheckpointsFolder);
  return all.empty() ? std::nullopt : std::optional(all.front().path);
}

/// For a checkpoint in parts, the time of its completion.
fs::file_time_type written_at(const fs::path& path) {
  std::error_code unknown;
  return fs::last_write_time(fs::is_directory(path, unknown) ? path / kIndexName : path, unknown);
}

}  // namespace

bool is_run_folder(const fs::path& path) {
  std::error_code unknown;
  return fs::is_directory(path, unknown) && !fs::exists(path / kIndexName, unknown) &&
         (fs::is_directory(path / kCheckpointsFolder, unknown) || fs::exists(path / kFinalWeights, unknown));
}

std::vector<fs::path> folders_of_run_around(const fs::path& weights) {
  std::error_code unknown;
  auto folder = fs::absolute(weights, unknown).lexically_normal();
  if (folder.filename().empty()) folder = folder.parent_path();  // "RUN/best/"
  return {folder, folder.parent_path(), folder.parent_path().parent_path()};
}

fs::path find_file_of_run(const fs::path& weights, const char* name) {
  if (weights.empty()) return {};
  for (const auto& folder : folders_of_run_around(weights)) {
    std::error_code unknown;
    if (fs::is_regular_file(folder / name, unknown)) return folder / name;
  }
  return {};
}

fs::path weights_of_run(const fs::path& path) {
  if (!is_run_folder(path)) return path;
  std::error_code unknown;
  const auto weights = path / kFinalWeights;
  const auto newest = newest_checkpoint(path);
  if (!newest) return weights;
  return fs::exists(weights, unknown) && written_at(weights) >= written_at(*newest) ? weights : *newest;
}

fs::path checkpoint_of_run(const fs::path& path) {
  if (!is_run_folder(path)) return path;
  return newest_checkpoint(path).value_or(path / kFinalWeights);
}

}  // namespace lockstep::train
