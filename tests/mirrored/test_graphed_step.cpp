// Steps that are recorded where a device can do that: here, where none can, with the reason, and the same numbers.
#include "mirrored/nets.h"
#include "mirrored/on_every_backend.h"

#include <lockstep/base/error.h>
#include <lockstep/mirrored/data_parallel.h>

namespace lockstep::test {
namespace {

TEST(GraphedStep, RunsAsWrittenOnTheCpuAndSaysWhy) {
  fork_ranks(1, {}, [](int) {
    const auto group = connect(World(), RankOptions::test_group_options("auto"));
    const auto recorded = std::make_shared<Toy>();
    const auto plain = std::make_shared<Toy>();
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < plain->parameters().size(); ++i)
      plain->parameters()[i].copy_(recorded->parameters()[i]);
    const at::AutoGradMode with_gradients(true);
    DataParallel parallel(recorded, group);
    torch::optim::SGD optimizer(recorded->parameters(), 0.1), expected(plain->parameters(), 0.1);
    GraphedStep step(parallel, optimizer, [&](const std::vector<at::Tensor>& in) {
      return torch::mse_loss(recorded->forward(in[0]), in[1]);
    });
    ASSERT_TRUE(step.why_not_recorded());
    for (int i = 0; i < 6; ++i) {
      const auto input = torch::randn({4, 10}), target = torch::randn({4, 5});
      const auto loss = step.run({input, target});
      plain->zero_grad();
      const auto expected_loss = torch::mse_loss(plain->forward(input), target);
      expected_loss.backward();
      expected.step();
      EXPECT_TRUE(torch::equal(loss, expected_loss.detach()));
    }
    EXPECT_FALSE(step.is_recorded());
  });
}

TEST(GraphedStep, NeedsParameters) {
  fork_ranks(1, {}, [](int) {
    const auto group = connect(World(), RankOptions::test_group_options("auto"));
    DataParallel parallel(std::make_shared<torch::nn::ReLUImpl>(), group);
    torch::optim::SGD optimizer({torch::zeros({1})}, 0.1);
    EXPECT_THROW(GraphedStep(parallel, optimizer, {}), Error);
  });
}

}  // namespace
}  // namespace lockstep::test
