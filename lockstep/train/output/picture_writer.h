// WORK_DIR/pictures/: the pictures of tasks after each evaluation.
#pragma once

#include <lockstep/train/callback.h>
#include <lockstep/train/output/only_informs.h>

#include <filesystem>

namespace lockstep::train {

/// Writes Evaluation::pictures as NAME_step_N.png. Makes the folder with the first one.
class PictureWriter final : public Callback {
 public:
  explicit PictureWriter(std::filesystem::path folder);

  std::string name() const override { return "pictures"; }
  void after_evaluation(RunView& run, const Evaluation& evaluation) override;

 private:
  std::filesystem::path folder_;
  OnlyInforms informs_;
};

}  // namespace lockstep::train
