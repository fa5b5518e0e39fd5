// Runs on a device: the loop of `lockstep train` with steps that are launched as CUDA graphs, against steps as written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/devices.h"
#include "train/small_run.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;

void expect_near(const SmallRun& run, const std::string& a, const std::string& b) {
  const auto losses = run.losses(a), others = run.losses(b);
  ASSERT_EQ(losses.size(), others.size());
  ASSERT_GT(losses.size(), 4U) << "the fourth step is the first that is recorded";
  for (std::size_t i = 0; i < losses.size(); ++i) {
    EXPECT_EQ(losses[i].first, others[i].first);
    EXPECT_NEAR(losses[i].second, others[i].second, 1e-3) << "step " << losses[i].first;
  }
}

TEST(Gpu, RunsWithRecordedStepsHaveTheLossesOfThoseAsWritten) {
  SKIP_WITHOUT_DEVICE();
  for (const auto* optimizer : {"momentum", "adamw"}) {
    const auto config = [&](const std::string& name, const std::string& graph) {
      return mnist().config(optimizer + name, {"system.device=cuda", "parallel.backend=auto",
                                               "callbacks.metrics_every=1", std::string("optimizer.name=") + optimizer,
                                               "optimizer.lr=0.01", "train.cuda_graph=" + graph});
    };
    mnist().run(1, config("_written", "false"));
    mnist().run(1, config("_recorded", "true"));
    expect_near(mnist(), std::string(optimizer) + "_written", std::string(optimizer) + "_recorded");
    EXPECT_THAT(read_file(mnist().work_dir(std::string(optimizer) + "_recorded") / "log/rank.0"),
                HasSubstr("steps are launched as a CUDA graph"));
  }
}

TEST(Gpu, ARunGoesOnAsWrittenWhereItsStepsCannotBeRecorded) {
  SKIP_WITHOUT_DEVICE();
  mnist().run(1, mnist().config("clipped", {"system.device=cuda", "parallel.backend=auto", "train.cuda_graph=true",
                                            "train.clip_norm=1"}));
  EXPECT_THAT(read_file(mnist().work_dir("clipped") / "log/rank.0"), HasSubstr("steps are not recorded"));
}

TEST(Gpu, ACheckpointOfADeviceGoesOnOnTheCpu) {
  SKIP_WITHOUT_DEVICE();
  const auto keys = [](const std::string& device, int epochs) {
    return std::vector<std::string>{"system.device=" + device, "parallel.backend=auto",
                                    "train.epochs=" + std::to_string(epochs)};
  };
  mnist().run(1, mnist().config("moves", keys("cuda", 1)));
  mnist().run(1, mnist().config("moves", keys("cpu", 2)));
  mnist().run(1, mnist().config("moves", keys("cuda", 3)));
  EXPECT_EQ(mnist().result("moves")["steps"], 36);
}

}  // namespace
}  // namespace lockstep::test
