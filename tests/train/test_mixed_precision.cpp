// Loss scaling and 16-bit products: steps that overflow on purpose, in all modes, beside libtorch alone.
#include <lockstep/base/error.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/compat/libtorch.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/train/optimizer/gradient_scaling.h>
#include <lockstep/train/program.h>
#include <lockstep/train/run_group.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "base/expect_error.h"
#include "support/ranks.h"
#include "support/read_file.h"
#include "train/small_run.h"

namespace lockstep::test {
namespace {

train::LossScalerConfig dynamic(double scale, std::int64_t window) {
  return {.type = "dynamic", .loss_scale = scale, .scale_window = window};
}

TEST(LossScaler, FollowsOverflowsAsPyTorchsGradScalerDoes) {
  const auto config = dynamic(1024, 3);
  train::LossScale state;
  EXPECT_EQ(train::loss_scale(config, state), 1024);
  const std::vector<std::pair<bool, double>> steps = {{true, 512},   {false, 512}, {false, 512}, {false, 1024},
                                                      {false, 1024}, {true, 512},  {true, 256},  {false, 256},
                                                      {false, 256},  {false, 512}};
  for (const auto& [overflow, next] : steps) {
    state = train::after_step(config, state, overflow);
    EXPECT_EQ(state.value, next);
  }
  EXPECT_EQ(state.skipped, 3);
  EXPECT_EQ(state.skipped_in_a_row, 0);
}

TEST(LossScaler, IsConstantOrAbsent) {
  train::LossScalerConfig config{.type = "static", .loss_scale = 8};
  const auto state = train::after_step(config, {}, true);
  EXPECT_EQ(train::loss_scale(config, state), 8);
  EXPECT_EQ(state.skipped, 1);
  config.type = "none";
  EXPECT_EQ(train::loss_scale(config, {}), std::nullopt);
}

TEST(LossScaler, GivesUpWhenNothingHelps) {
  const auto config = dynamic(1024, 3);
  train::LossScale state;
  for (int step = 1; step < 64; ++step) state = train::after_step(config, state, true);
  expect_error(ErrorKind::numeric, {"last 64 steps", "optimizer.lr"}, [&] { train::after_step(config, state, true); });
}

constexpr std::int64_t kSamples = 24, kBatch = 4, kSteps = 18;

/// A line through 24 points, one of which is so far away that its gradient overflows with a scale above 1e18.
struct Points {
  torch::Tensor x = torch::arange(kSamples, torch::kFloat).div(kSamples).unsqueeze(1);
  torch::Tensor y = 3 * x + 1;
  Points() { x[9] = 1e10; }
};

struct Line : torch::nn::Module {
  torch::nn::Linear line{register_module("line", torch::nn::Linear(1, 1))};
};

train::Program line_program() {
  return {
      .name = "line",
      .model = [] { return std::make_shared<Line>(); },
      .task = train::make_task<Line>([](Line& net, const samples::Batch& batch) {
        return train::Outcome{.loss = torch::mse_loss(net.line(batch["x"]), batch["y"])};
      }),
      .data =
          [](data::Split split) {
            const Points points;
            return split == data::Split::train ? samples::from_tensors({{"x", points.x}, {"y", points.y}}) : nullptr;
          }};
}

class OverflowOnPurpose : public testing::Test {
 protected:
  train::ResolvedRun config(const std::string& name, std::vector<std::string> more) const {
    std::vector<std::string> keys = {"system.work_dir=" + (folder_.path() / name).string(),
                                     "data.global_batch_size=4",
                                     "data.shuffle=false",
                                     "optimizer.name=momentum",
                                     "optimizer.lr=0.05",
                                     "train.steps=18",
                                     "parallel.timeout_s=60",
                                     "parallel.start_timeout_s=60",
                                     "loss_scaler={type: dynamic, loss_scale: 1e20, scale_window: 4}"};
    keys.insert(keys.end(), more.begin(), more.end());
    return train::load_program_config({}, std::nullopt, keys);
  }

  nlohmann::json run(int ranks, const std::string& name, std::vector<std::string> more = {}) const {
    const auto wanted = config(name, std::move(more));
    run_ranks(ranks, SmallRun::small_rank_options(), [&](Rank& rank) {
      auto world = rank.world();
      if (world.size == 1) world.rendezvous = Rendezvous::alone;
      train::run_training(wanted, line_program(), world);
    });
    return nlohmann::json::parse(read_file(folder_.path() / name / "result.json"));
  }

  TemporaryFolder folder_{"lockstep-overflow"};
};

/// What PyTorch's GradScaler does, written out: the weights, and how many steps were skipped.
std::pair<std::vector<torch::Tensor>, int> by_libtorch(std::vector<torch::Tensor> start) {
  const Points points;
  for (auto& tensor : start) tensor.requires_grad_(true);
  torch::optim::SGD optimizer(start, torch::optim::SGDOptions(0.05).momentum(0.9));
  double scale = 1e20;
  int good = 0, skipped = 0;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const auto from = step % (kSamples / kBatch) * kBatch;
    const auto x = points.x.slice(0, from, from + kBatch);
    const auto y = points.y.slice(0, from, from + kBatch);
    optimizer.zero_grad();
    (torch::mse_loss(torch::nn::functional::linear(x, start[1], start[0]), y) * scale).backward();
    bool finite = true;
    for (auto& tensor : start) finite = finite && tensor.grad().isfinite().all().item<bool>();
    if (!finite) {
      scale /= 2;
      good = 0;
      ++skipped;
      continue;
    }
    for (auto& tensor : start) tensor.mutable_grad().div_(scale);
    optimizer.step();
    if (++good == 4) scale *= 2, good = 0;
  }
  return {start, skipped};
}

TEST_F(OverflowOnPurpose, SkipsTheSameStepsOnAnyNumberOfRanksInAnyMode) {
  const auto start = run(1, "start", {"train.steps=1", "optimizer.lr=1e-30"});
  const auto weights_of = [&](const std::string& name) {
    const auto tensors = state::load_safetensors(folder_.path() / name / "model.safetensors");
    return std::vector<torch::Tensor>{tensors.at("line.bias"), tensors.at("line.weight")};
  };
  // In a process of its own: those that are forked later can use autograd only if this one has not.
  const auto file = folder_.path() / "expected.safetensors";
  run_ranks(1, SmallRun::small_rank_options(), [&](Rank&) {
    const auto [weights, skipped] = by_libtorch(weights_of("start"));
    state::save_safetensors(file,
                            {{"bias", weights[0].detach()},
                             {"weight", weights[1].detach()},
                             {"skipped", torch::tensor(std::int64_t{skipped})}},
                            {});
  });
  const auto reference = state::load_safetensors(file);
  const std::vector<torch::Tensor> expected{reference.at("bias"), reference.at("weight")};
  const auto skipped = reference.at("skipped").item<std::int64_t>();
  ASSERT_GT(skipped, 2);
  struct Case {
    int ranks;
    std::vector<std::string> keys;
  };
  const std::vector<Case> cases = {{1, {}},
                                   {2, {}},
                                   {4, {}},
                                   {2, {"parallel.shard_optimizer=true"}},
                                   {2, {"train.clip_norm=1e30"}},
                                   {2, {"parallel.mode=semi_auto"}},
                                   {2, {"parallel.mode=auto"}}};
  int number = 0;
  for (const auto& each : cases) {
    const auto name = "run" + std::to_string(number++);
    SCOPED_TRACE(name);
    const auto result = run(each.ranks, name, each.keys);
    EXPECT_EQ(result["skipped_steps"], skipped);
    EXPECT_EQ(result["steps"], kSteps);
    const auto got = weights_of(name);
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(torch::allclose(got[i], expected[i].detach(), 1e-5, 1e-6)) << got[i] << expected[i];
    }
  }
}

TEST_F(OverflowOnPurpose, GoesOnFromACheckpointAsIfNothingHadHappened) {
  const auto whole = run(2, "whole");
  for (const auto* steps : {"train.steps=5", "train.steps=11", "train.steps=18"}) {
    run(2, "parts", {steps, "checkpoint.every_steps=1"});
  }
  const auto parts = nlohmann::json::parse(read_file(folder_.path() / "parts/result.json"));
  EXPECT_EQ(parts["params_sha256"], whole["params_sha256"]);
  EXPECT_EQ(parts["skipped_steps"], whole["skipped_steps"]);
}

TEST_F(OverflowOnPurpose, IsNamedWithoutAScaler) {
  const auto wanted = config("none", {"loss_scaler.type=none", "optimizer.lr=1e6"});
  const auto outcomes = rank_outcomes(1, SmallRun::small_rank_options(), [&](Rank& rank) {
    auto world = rank.world();
    world.rendezvous = Rendezvous::alone;
    train::run_training(wanted, line_program(), world);
  });
  EXPECT_FALSE(outcomes[0].ok());
  expect_words(outcomes[0].output, {"training cannot go on"});
}

// A power of two changes exponents alone, so that nothing is rounded otherwise.
TEST(LossScaler, OfAPowerOfTwoChangesNothing) {
  mnist().run(2, mnist().config("plain"));
  for (const auto* mode : {"data_parallel", "semi_auto"}) {
    const std::string key = std::string("parallel.mode=") + mode;
    mnist().run(2, mnist().config(std::string("plain_") + mode, {key}));
    mnist().run(2,
                mnist().config(std::string("scaled_") + mode, {key, "loss_scaler={type: static, loss_scale: 1024}"}));
    EXPECT_EQ(mnist().hash(std::string("scaled_") + mode), mnist().hash(std::string("plain_") + mode)) << mode;
  }
}

// The same casts in both views, so one rank computes the same bits.
TEST(Autocast, IsTheSameInTheGlobalView) {
  const std::vector<std::string> common = {"train.steps=6", "model.autocast=bfloat16"};
  const auto run = [&](int ranks, const std::string& name, std::vector<std::string> more) {
    more.insert(more.begin(), common.begin(), common.end());
    mnist().run(ranks, mnist().config(name, more));
  };
  run(1, "bf16", {});
  mnist().run(1, mnist().config("float32", {"train.steps=6"}));
  EXPECT_NE(mnist().hash("bf16"), mnist().hash("float32"));
  run(1, "bf16_global", {"parallel.mode=semi_auto"});
  EXPECT_EQ(mnist().hash("bf16_global"), mnist().hash("bf16"));
  run(2, "bf16_model",
      {"parallel.mode=semi_auto", "parallel.mesh={data: 1, model: 2}", "parallel.shard={\"fc1.*\": {model: 0}}"});
  run(2, "bf16_auto", {"parallel.mode=auto", "data.batch_size=4"});
  for (const auto* name : {"bf16_model", "bf16_auto"}) {
    EXPECT_NEAR(mnist().result(name)["eval_loss"].get<double>(), mnist().result("bf16")["eval_loss"].get<double>(),
                0.02)
        << name;
  }
}

TEST(Autocast, Float16OnACpuRunsOrIsRefusedByName) {
  const auto outcomes = mnist().outcomes(1, mnist().config("float16", {"model.autocast=float16", "system.device=cpu"}));
  EXPECT_EQ(outcomes[0].ok(), compat::kHalfOnCpu) << outcomes[0].output;
  if (compat::kHalfOnCpu) return;
  expect_words(outcomes[0].output, {"float16 needs CUDA", "bfloat16"});
}

}  // namespace
}  // namespace lockstep::test
