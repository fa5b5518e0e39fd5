// Whole runs of DBNet in float64: what the number of ranks changes there is not rounding.
#include <gtest/gtest.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/ocr/parts.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/train/output/metrics.h>
#include <lockstep/train/run.h>
#include <torch/torch.h>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "ocr/detection/text_pictures.h"
#include "support/ranks.h"

namespace lockstep::test {
namespace {

/// A task that gets float64 pictures.
class InFloat64 final : public train::Task {
 public:
  explicit InFloat64(std::shared_ptr<train::Task> task) : task_(std::move(task)) {}

  train::Outcome run(torch::nn::Module& model, const samples::Batch& batch, bool measures) override {
    return task_->run(model, wide(batch), measures);
  }
  std::int64_t loss_sums() const override { return task_->loss_sums(); }
  at::Tensor loss_of(const at::Tensor& sums) const override { return task_->loss_of(sums); }
  at::Tensor nothing(torch::nn::Module& model, const samples::Batch& batch) override {
    return task_->nothing(model, wide(batch));
  }

 private:
  static samples::Batch wide(samples::Batch batch) {
    auto& pictures = batch.tensors.at(samples::kPictures);
    pictures = pictures.to(torch::kDouble);
    return batch;
  }

  std::shared_ptr<train::Task> task_;
};

template <typename Part>
Part& part_in(std::vector<Part>& parts, const std::string& name) {
  return *std::find_if(parts.begin(), parts.end(), [&](const auto& part) { return part.name == name; });
}

std::shared_ptr<const train::Parts> parts_in_float64() {
  auto parts = ocr::with_ocr_parts(train::shipped_parts());
  auto& model = part_in(parts.models, "dbnet");
  model.make = [make = model.make](const PartOptions& options) {
    auto module = make(options);
    module->to(torch::kDouble);
    return module;
  };
  auto& task = part_in(parts.tasks, "text_detection");
  task.make = [make = task.make](const PartOptions& options) { return std::make_shared<InFloat64>(make(options)); };
  return std::make_shared<const train::Parts>(std::move(parts));
}

// At the configuration's rate, without its warm-up. From step 9 on the losses differ by more: not by 1e-4 but by 1e-3.
TEST(NumbersOfRanks, GiveTheSameLossesForEightSteps) {
  const TemporaryFolder folder("lockstep-numbers-of-ranks");
  made_pictures(folder.path());
  const auto parts = parts_in_float64();
  std::vector<double> expected;
  for (const int ranks : {1, 2, 4}) {
    const auto work_dir = folder.path() / fmt::format("ranks{}", ranks);
    auto keys = keys_for_made_pictures(folder.path());
    keys.insert(keys.end(),
                {"system.work_dir=" + work_dir.string(), "train.steps=8", "parallel.sync_batch_norm=true",
                 "data.eval=null", "data.global_batch_size=4", "optimizer.lr=0.007", "checkpoint.every_epochs=0"});
    RankOptions options;
    options.deadline = std::chrono::seconds(300);
    run_ranks(ranks, options, [&](Rank& rank) {
      auto world = rank.world();
      if (world.size == 1) world.meeting = Meeting::alone;
      const auto file = std::string(LOCKSTEP_SOURCE_DIR) + "/configs/det/dbnet/db_r18_icdar15.yaml";
      train::run_training(train::load_run_config(file, keys, parts), world);
    });
    std::vector<double> losses;
    for (const auto& line : train::read_metrics(work_dir / "metrics.jsonl")) losses.push_back(line.loss);
    ASSERT_EQ(losses.size(), 8U);
    if (ranks == 1) expected = losses;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      EXPECT_NEAR(losses[i], expected[i], 1e-4 * std::max(1.0, expected[i])) << ranks << " ranks, step " << i + 1;
    }
  }
  EXPECT_LT(expected.back(), 0.8 * expected.front());  // they are those of a network that learns
}

}  // namespace
}  // namespace lockstep::test
