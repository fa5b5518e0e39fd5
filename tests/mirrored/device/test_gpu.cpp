// Training steps on a device: updates in a few kernels, and steps recorded as graphs, against the plain ones.
#include <lockstep/comm/collectives.h>
#include <lockstep/kernels/tuning.h>
#include <lockstep/mirrored/data_parallel.h>

#include "support/devices.h"
#include "support/ranks.h"

#include <gtest/gtest.h>

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <vector>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;

struct Net : torch::nn::Module {
  torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).bias(false)));
  torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d(8));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(8, 4));

  at::Tensor forward(const at::Tensor& x) { return last(torch::relu(norm(conv(x))).mean({2, 3})); }
};

at::Tensor pictures(int step, std::int64_t count) {
  torch::manual_seed(static_cast<std::uint64_t>(step));
  return torch::randn({count, 3, 8, 8}).to(at::kCUDA);
}
at::Tensor labels(int step, std::int64_t count) { return torch::arange(step, step + count).remainder(4).to(at::kCUDA); }

Group group_of_one() {
  auto options = RankOptions::test_group_options("auto");
  options.device = "cuda";
  return connect(World(), options);
}

std::vector<std::shared_ptr<Net>> two_nets() {
  std::vector<std::shared_ptr<Net>> nets;
  for (int i = 0; i < 2; ++i) {
    torch::manual_seed(1);
    nets.push_back(std::make_shared<Net>());
    nets.back()->to(at::kCUDA);
  }
  return nets;
}

at::Tensor loss_of(Net& net, const std::vector<at::Tensor>& in) {
  return torch::nn::functional::cross_entropy(net.forward(in[0]), in[1]);
}

void expect_same_numbers(const Net& a, const Net& b) {
  for (std::size_t i = 0; i < a.parameters().size(); ++i) {
    EXPECT_TRUE(at::allclose(a.parameters()[i], b.parameters()[i], 1e-4, 1e-5)) << "parameter " << i;
  }
  for (std::size_t i = 0; i < a.buffers().size(); ++i) {
    EXPECT_TRUE(at::allclose(a.buffers()[i].to(at::kFloat), b.buffers()[i].to(at::kFloat), 1e-4, 1e-5))
        << "buffer " << i;
  }
}

template <typename Optimizer, typename Options>
void expect_update_equals_step(const Options& options) {
  const auto nets = two_nets();
  Optimizer expected(nets[0]->parameters(), options), optimizer(nets[1]->parameters(), options);
  EXPECT_FALSE(why_no_fused_update(optimizer)) << *why_no_fused_update(optimizer);
  for (int step = 0; step < 6; ++step) {
    for (const auto& net : nets) {
      net->zero_grad();
      loss_of(*net, {pictures(step, 8), labels(step, 8)}).backward();
    }
    expected.step();
    update(optimizer);
  }
  expect_same_numbers(*nets[0], *nets[1]);
}

TEST(Gpu, UpdatesInAFewKernelsEqualStep) {
  SKIP_WITHOUT_DEVICE();
  fork_ranks(1, {.deadline = 5min}, [](int) {
    namespace optim = torch::optim;
    expect_update_equals_step<optim::SGD>(optim::SGDOptions(0.1));
    expect_update_equals_step<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9).weight_decay(1e-3));
    expect_update_equals_step<optim::Adam>(optim::AdamOptions(1e-2).weight_decay(1e-3));
    expect_update_equals_step<optim::AdamW>(optim::AdamWOptions(1e-2));
  });
}

template <typename Optimizer, typename Options>
void expect_recorded_equals_written(const Options& options) {
  const auto group = group_of_one();
  const auto nets = two_nets();
  DataParallel parallel(nets[1], group);
  Optimizer expected(nets[0]->parameters(), options), optimizer(nets[1]->parameters(), options);
  GraphedStep step(parallel, optimizer, [&](const std::vector<at::Tensor>& in) { return loss_of(*nets[1], in); });
  for (int i = 0; i < 12; ++i) {
    const std::int64_t count = i == 8 ? 5 : 8;  // a smaller batch in between
    for (auto* each : std::initializer_list<torch::optim::Optimizer*>{&expected, &optimizer}) {
      each->param_groups()[0].options().set_lr(0.01 / (1 + i));
    }
    const auto loss = step.run({pictures(i, count), labels(i, count)});
    nets[0]->zero_grad();
    const auto expected_loss = loss_of(*nets[0], {pictures(i, count), labels(i, count)});
    expected_loss.backward();
    expected.step();
    EXPECT_NEAR(loss.template item<float>(), expected_loss.template item<float>(), 1e-4) << "step " << i;
    EXPECT_EQ(step.is_recorded(), i >= 3) << step.why_not_recorded().value_or("");
  }
  expect_same_numbers(*nets[0], *nets[1]);
}

TEST(Gpu, RecordedStepsEqualThoseAsWritten) {
  SKIP_WITHOUT_DEVICE();
  fork_ranks(1, {.deadline = 5min}, [](int) {
    namespace optim = torch::optim;
    expect_recorded_equals_written<optim::SGD>(optim::SGDOptions(0.01).momentum(0.9).weight_decay(1e-3));
    expect_recorded_equals_written<optim::Adam>(optim::AdamOptions(0.01));
  });
}

TEST(Gpu, AStepThatReadsANumberOnTheHostIsNotRecordedAndGoesOn) {
  SKIP_WITHOUT_DEVICE();
  fork_ranks(1, {.deadline = 5min}, [](int) {
    const auto group = group_of_one();
    const auto net = two_nets().front();
    DataParallel parallel(net, group);
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    GraphedStep step(parallel, optimizer, [&](const std::vector<at::Tensor>& in) {
      const auto loss = loss_of(*net, in);
      return loss.item<float>() < 0 ? -loss : loss;
    });
    at::Tensor loss;
    for (int i = 0; i < 6; ++i) loss = step.run({pictures(0, 8), labels(0, 8)});
    EXPECT_FALSE(step.is_recorded());
    EXPECT_NE(step.why_not_recorded().value_or("").find("could not be recorded"), std::string::npos);
    EXPECT_LT(loss.item<float>(), 10);
  });
}

/// The group carries tensors of both, so a model on the CPU can learn the same beside one on the device.
TEST(Gpu, RanksThatShareADeviceLearnWhatTheyLearnOnTheCpu) {
  SKIP_WITHOUT_DEVICE();
  RankOptions options;
  options.group = RankOptions::test_group_options("staged");
  options.deadline = 5min;
  options.environment = {{"CUDA_VISIBLE_DEVICES", "0"}};
  run_ranks(2, options, [](Rank& self) {
    const auto& group = self.group();
    const auto nets = two_nets();
    nets[0]->to(at::kCPU);
    DataParallel on_cpu(nets[0], group), on_gpu(nets[1], group);
    torch::optim::SGD expected(nets[0]->parameters(), 0.1), optimizer(nets[1]->parameters(), 0.1);
    for (int step = 0; step < 5; ++step) {
      const auto x = pictures(2 * step + self.rank(), 8), y = labels(step + self.rank(), 8);
      for (auto* each : std::initializer_list<torch::optim::Optimizer*>{&expected, &optimizer}) each->zero_grad();
      loss_of(*nets[0], {x.cpu(), y.cpu()}).backward();
      loss_of(*nets[1], {x, y}).backward();
      expected.step();
      optimizer.step();
    }
    for (std::size_t i = 0; i < nets[1]->parameters().size(); ++i) {
      const auto learned = nets[1]->parameters()[i].detach();
      EXPECT_TRUE(at::allclose(learned.cpu(), nets[0]->parameters()[i], 1e-3, 1e-4)) << "parameter " << i;
      const auto all = all_gather(learned.reshape({1, -1}), group);
      EXPECT_TRUE(at::equal(all[0], all[1])) << "bits of parameter " << i;
    }
  });
}

TEST(Gpu, ShardsOfOneRankAreWholeParameters) {
  SKIP_WITHOUT_DEVICE();
  fork_ranks(1, {.deadline = 5min}, [](int) {
    const auto nets = two_nets();
    DataParallel parallel(nets[1], group_of_one());
    const auto options = torch::optim::SGDOptions(0.1).momentum(0.9);
    torch::optim::SGD expected(nets[0]->parameters(), options);
    ShardedOptimizer<torch::optim::SGD> optimizer(parallel, options);
    for (int step = 0; step < 4; ++step) {
      for (const auto& net : nets) {
        net->zero_grad();
        loss_of(*net, {pictures(step, 8), labels(step, 8)}).backward();
      }
      expected.step();
      optimizer.step();
    }
    EXPECT_EQ(ParameterShards(parallel).pieces().size(), nets[1]->parameters().size());
    expect_same_numbers(*nets[0], *nets[1]);
  });
}

}  // namespace
}  // namespace lockstep::test
