// Which of several checkpoints in a folder is the best: a note that the callback best_checkpoints leaves there.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::train {

struct BestCheckpoint {
  std::string name;    ///< in the folder
  std::string metric;  ///< by which it is the best
  double value = 0;
};

/// Writes FOLDER/best.json. Error(io).
void note_best(const std::filesystem::path& folder, const BestCheckpoint& best);

/// nullopt where there is no such note, or none that can be read.
std::optional<BestCheckpoint> noted_best(const std::filesystem::path& folder);

}  // namespace lockstep::train
