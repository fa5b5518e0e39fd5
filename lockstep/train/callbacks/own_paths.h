// The paths that callbacks write to: no two parts of a run may write to the same one.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/train/callback.h>

#include <filesystem>
#include <map>
#include <string>

namespace lockstep::train {

class OwnPaths {
 public:
  /// Starts with the files and folders of the run itself.
  explicit OwnPaths(const RunConfig& config);

  /// Adds the paths of a callback. Error(config) at `position`, naming both owners and the option that would help,
  /// where a path is already in use.
  void add(const Callback& callback, const FilePosition& position);

 private:
  std::filesystem::path work_dir_;
  std::map<std::filesystem::path, std::string> owners_;
};

}  // namespace lockstep::train
