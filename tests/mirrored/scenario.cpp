#include "mirrored/scenario.h"

#include <lockstep/comm/collectives.h>

#include <gtest/gtest.h>

#include <unordered_set>

namespace lockstep::test {

at::Tensor data(at::IntArrayRef sizes, int rank, int step, at::ScalarType dtype) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(1000 * step + rank));
  return at::randn(sizes, generator, torch::TensorOptions(dtype));
}

std::vector<at::Tensor> parameters_of(const torch::nn::Module& module) {
  std::vector<at::Tensor> unique;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& parameter : module.parameters()) {
    if (seen.insert(parameter.unsafeGetTensorImpl()).second) unique.push_back(parameter);
  }
  return unique;
}

Gradients gradients_of(const torch::nn::Module& module) {
  Gradients gradients;
  for (const auto& parameter : parameters_of(module)) {
    gradients.push_back(parameter.grad().defined() ? parameter.grad().detach().clone() : at::Tensor());
  }
  return gradients;
}

Gradients emulated_gradients(const Scenario& scenario, torch::nn::Module& module, int ranks, int step, bool mean,
                             const Gradients& before) {
  torch::NoGradGuard no_grad;
  const auto replica = scenario.make();
  const auto from = parameters_of(module);
  const auto to = parameters_of(*replica);
  for (std::size_t i = 0; i < to.size(); ++i) at::Tensor(to[i]).copy_(from[i]);

  Gradients total(to.size());
  for (int rank = 0; rank < ranks; ++rank) {
    for (auto parameter : to) parameter.mutable_grad().reset();
    {
      torch::AutoGradMode grad(true);
      const at::Tensor loss = scenario.loss(*replica, rank, step);
      if (loss.defined()) loss.backward();
    }
    for (std::size_t i = 0; i < to.size(); ++i) {
      const at::Tensor& gradient = to[i].grad();
      if (!gradient.defined()) continue;
      total[i] = total[i].defined() ? total[i] + gradient : gradient.clone();
    }
  }
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (total[i].defined() && mean) total[i] = total[i] / ranks;
    if (i >= before.size() || !before[i].defined()) continue;
    total[i] = total[i].defined() ? before[i] + total[i] : before[i];
  }
  return total;
}

void expect_close(const Gradients& actual, const Gradients& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i].defined(), expected[i].defined()) << "gradient " << i;
    if (!actual[i].defined()) continue;
    EXPECT_TRUE(torch::allclose(actual[i], expected[i], tolerance, tolerance)) << "gradient " << i << " is\n"
                                                                               << actual[i] << "\nand must be\n"
                                                                               << expected[i];
  }
}

void expect_same_bits_on_all_ranks(const std::vector<at::Tensor>& tensors, const Group& group) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor mine = tensors[i].defined() ? tensors[i].detach().contiguous().flatten() : torch::zeros({0});
    const at::Tensor all = all_gather(mine, group).view({group.size(), -1});
    for (int rank = 1; rank < group.size(); ++rank) {
      EXPECT_TRUE(torch::equal(all[rank], all[0])) << "tensor " << i << " differs between rank 0 and rank " << rank;
    }
  }
}

void expect_error(const std::function<void()>& call, ErrorKind kind, const std::vector<std::string>& words) {
  try {
    call();
    ADD_FAILURE() << "must throw an Error of kind " << name(kind);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    for (const auto& word : words) EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
}

}  // namespace lockstep::test
