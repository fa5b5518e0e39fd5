// A model that is measured and not trained: it is made, gets its weights, and is distributed over the ranks as in
// training.
#pragma once

#include <lockstep/train/modes/parallel_run.h>
#include <lockstep/train/output/console.h>
#include <lockstep/train/resources/run_data.h>
#include <lockstep/train/run_group.h>

#include <memory>
#include <optional>
#include <string_view>

namespace lockstep::train {

class MeasuredModel {
 public:
  /// A collective. Errors of config_of(), complete_program(), check_run_config() and the planner.
  MeasuredModel(const RunConfig& given, const Program& parts, const Group& group, const NamedTensors* weights);

  /// This rank's share of the test split, or of `dataset` if that is given; nullopt if there is no data.
  std::optional<RankData> data(std::shared_ptr<const samples::Dataset> dataset = nullptr) const;
  const c10::Device& device() const { return device_; }
  /// The number of this share, and the number of shares.
  DataShare share() const { return share_; }
  torch::nn::Module& module() const { return *model_.module; }
  ParallelRun& run() const { return *run_; }
  const Task& task() const { return *model_.task; }
  void tell(std::string_view line) const { train::tell(console_, line); }

 private:
  RunConfig config_;
  Program program_;
  mutable Console console_;
  DataShare share_;
  c10::Device device_{c10::DeviceType::CPU};
  Model model_;
  std::unique_ptr<ParallelRun> run_;
};

}  // namespace lockstep::train
