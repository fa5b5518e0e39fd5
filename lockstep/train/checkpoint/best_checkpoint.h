// The best of several checkpoints in a folder: a file that the callback best_checkpoints writes there.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::train {

struct BestCheckpoint {
  std::string name;    ///< in the folder
  std::string metric;  ///< the metric of the comparison
  double value = 0;
};

/// Writes FOLDER/best.json. Error(io).
void note_best(const std::filesystem::path& folder, const BestCheckpoint& best);

/// nullopt if there is no such file, or it cannot be read.
std::optional<BestCheckpoint> noted_best(const std::filesystem::path& folder);

}  // namespace lockstep::train
