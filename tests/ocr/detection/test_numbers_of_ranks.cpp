// Whole runs of DBNet in float64 on 1, 2 and 4 ranks: what differs between them is rounding, and how it grows.
#include <apps/ocr/parts.h>
#include <gtest/gtest.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/train/output/run_files.h>
#include <lockstep/train/run_group.h>
#include <torch/torch.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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

/// `rounding`: by how much, relatively, weights differ from those of another run.
std::shared_ptr<const train::Parts> parts_in_float64(double rounding = 0) {
  auto parts = ocr::with_ocr_parts(train::shipped_parts());
  auto& model = part_in(parts.models, "dbnet");
  model.make = [make = model.make, rounding](const PartOptions& options) {
    auto module = make(options);
    module->to(torch::kDouble);
    const torch::NoGradGuard no_grad;
    for (auto& each : module->parameters()) each.mul_(1 + rounding * torch::randn_like(each));
    return module;
  };
  auto& task = part_in(parts.tasks, "text_detection");
  task.make = [make = task.make](const PartOptions& options) { return std::make_shared<InFloat64>(make(options)); };
  return std::make_shared<const train::Parts>(std::move(parts));
}

struct Trained {
  std::vector<double> losses;
  state::NamedTensors weights;
};

class NumbersOfRanks : public testing::Test {
 protected:
  NumbersOfRanks() { made_pictures(folder_.path()); }

  /// Four pictures a step, batch norms over all ranks.
  Trained run(int ranks, const std::vector<std::string>& more, double rounding = 0) const {
    const auto work_dir = folder_.path() / fmt::format("run{}", ++runs_);
    auto keys = keys_for_made_pictures(folder_.path());
    keys.insert(keys.end(), {"system.work_dir=" + work_dir.string(), "parallel.sync_batch_norm=true", "data.eval=null",
                             "data.global_batch_size=4", "checkpoint.every_epochs=0"});
    keys.insert(keys.end(), more.begin(), more.end());
    const auto parts = parts_in_float64(rounding);
    RankOptions options;
    options.deadline = std::chrono::seconds(300);
    run_ranks(ranks, options, [&](Rank& rank) {
      auto world = rank.world();
      if (world.size == 1) world.rendezvous = Rendezvous::alone;
      const auto file = std::string(LOCKSTEP_SOURCE_DIR) + "/configs/det/dbnet/db_r18_icdar15.yaml";
      train::run_training(train::load_run_config(file, keys, parts), world);
    });
    Trained trained{.losses = {}, .weights = state::load_safetensors(work_dir / "model.safetensors")};
    for (const auto& line : train::read_metrics(work_dir / "metrics.jsonl")) trained.losses.push_back(line.loss);
    return trained;
  }

 private:
  TemporaryFolder folder_{"lockstep-numbers-of-ranks"};
  mutable int runs_ = 0;
};

double relative_difference(double a, double b) { return std::abs(a - b) / std::max(1.0, std::abs(b)); }

double largest(const torch::Tensor& tensor) { return tensor.abs().max().item<double>(); }

// The weights after one step of plain gradient descent less those before it are its gradients.
TEST_F(NumbersOfRanks, GiveTheSameGradientsButForRounding) {
  const std::vector<std::string> plain = {"train.steps=1", "optimizer.name=sgd", "optimizer.momentum=0",
                                          "optimizer.weight_decay=0"};
  const auto with_rate = [&](int ranks, const std::string& rate) {
    auto keys = plain;
    keys.push_back("optimizer.lr=" + rate);
    return run(ranks, keys);
  };
  const auto before = with_rate(1, "1e-300").weights;
  const auto expected = with_rate(1, "1");
  for (const int ranks : {2, 4}) {
    const auto actual = with_rate(ranks, "1");
    EXPECT_LT(relative_difference(actual.losses.front(), expected.losses.front()), 1e-13);
    double worst = 0;
    for (const auto& [name, tensor] : expected.weights) {
      if (tensor.scalar_type() != torch::kDouble) continue;
      // Running statistics are compared as they are. A bias in front of a batch norm has the gradient 0, but for
      // rounding.
      const bool gradient = name.find("running_") == std::string::npos;
      const double size = std::max(largest(gradient ? tensor - before.at(name) : tensor), 1e-3);
      const double difference = largest(actual.weights.at(name) - tensor) / size;
      EXPECT_LT(difference, 1e-11) << name << " on " << ranks << " ranks";
      worst = std::max(worst, difference);
    }
    fmt::print("{} ranks: gradients differ by {:.1e} at most\n", ranks, worst);
  }
}

// ICDAR's 1000 pictures are 250 such steps an epoch, of which the configuration warms up for three.
TEST_F(NumbersOfRanks, GiveTheSameLossesForTwentyStepsOfTheWarmUp) {
  const std::vector<std::string> keys = {"train.steps=20", "optimizer.lr=0.007", "scheduler.name=polynomial",
                                         "scheduler.warmup_epochs=0", "scheduler.warmup_steps=750"};
  const auto expected = run(1, keys).losses;
  double worst = 0;
  for (const int ranks : {2, 4}) {
    const auto actual = run(ranks, keys).losses;
    ASSERT_EQ(actual.size(), 20U);
    for (std::size_t i = 0; i < actual.size(); ++i) {
      const double difference = relative_difference(actual[i], expected[i]);
      EXPECT_LT(difference, 1e-4) << ranks << " ranks, step " << i + 1;
      worst = std::max(worst, difference);
    }
  }
  fmt::print("losses differ by {:.1e} at most, and fall from {:.3f} to {:.3f}\n", worst, expected.front(),
             expected.back());
  EXPECT_LT(expected.back(), expected.front());
}

// At the configuration's whole rate from the first step on, a relative difference of 1e-13 in the weights becomes one
// of 1e-5 in the loss within eight steps, on one rank as well. So equal losses for longer cannot be asked of any number
// of ranks there, only that they differ by no more than such a difference grows to.
TEST_F(NumbersOfRanks, DifferAtALargeRateByNoMoreThanARoundingGrowsTo) {
  const std::vector<std::string> keys = {"train.steps=8", "optimizer.lr=0.007"};
  const auto expected = run(1, keys).losses;
  const auto rounded = run(1, keys, 1e-13).losses;
  const auto actual = run(2, keys).losses;
  ASSERT_EQ(actual.size(), 8U);
  double grown = 1e-13;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    grown = std::max(grown, relative_difference(rounded[i], expected[i]));
    const double difference = relative_difference(actual[i], expected[i]);
    EXPECT_LT(difference, 100 * grown) << "step " << i + 1;
    fmt::print("step {}: a rounding has grown to {:.1e}, two ranks differ by {:.1e}\n", i + 1, grown, difference);
  }
  EXPECT_GT(grown, 1e-9);
}

}  // namespace
}  // namespace lockstep::test
