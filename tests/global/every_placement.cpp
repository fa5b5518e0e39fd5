#include "every_placement.h"

#include <lockstep/global/global_tensor.h>

#include <gtest/gtest.h>

#include <random>

namespace lockstep::test {
namespace {

using Lying = std::vector<Placements>;  // one for each input

std::vector<Placement> ways_to_lie(const torch::Tensor& input) {
  std::vector<Placement> ways{Replicate()};
  for (std::int64_t dim = 0; dim < input.dim(); ++dim) ways.push_back(Shard(dim));
  if (input.is_floating_point() || input.is_complex()) ways.push_back(Partial());
  return ways;
}

std::vector<Lying> combinations(const OperatorCase& op, std::size_t axes, std::size_t at_most) {
  std::vector<std::vector<Placement>> choices;  // input by input, axis by axis
  std::size_t all = 1;
  for (const auto& input : op.inputs) {
    for (std::size_t axis = 0; axis < axes; ++axis) {
      choices.push_back(ways_to_lie(input.value));
      all *= choices.back().size();
    }
  }
  std::mt19937 random(static_cast<unsigned>(all));
  std::vector<Lying> found;
  for (std::size_t i = 0; i < std::min(all, at_most); ++i) {
    std::size_t number = all <= at_most ? i : random() % all;
    Lying lying(op.inputs.size(), Placements(axes));
    for (std::size_t k = 0; k < choices.size(); ++k) {
      lying[k / axes][k % axes] = choices[k][number % choices[k].size()];
      number /= choices[k].size();
    }
    found.push_back(std::move(lying));
  }
  return found;
}

torch::Tensor gradient_like(const torch::Tensor& result) {
  const auto numbers = torch::arange(1, result.numel() + 1, torch::kDouble).view(result.sizes());
  return (result.is_complex() ? torch::complex(numbers.sin(), numbers.cos()) : numbers.sin()).to(result.scalar_type());
}

/// Results, then gradients of the inputs that are differentiated (undefined where there is none).
std::vector<torch::Tensor> results_of(const OperatorCase& op, const std::vector<torch::Tensor>& inputs,
                                      const std::function<torch::Tensor(const torch::Tensor&)>& place) {
  const auto results = op.run(inputs);
  std::vector<torch::Tensor> all;
  std::vector<torch::Tensor> differentiable;
  std::vector<torch::Tensor> gradients;
  for (const auto& result : results) {
    all.push_back(result.detach());
    if (!result.requires_grad()) continue;
    differentiable.push_back(result);
    gradients.push_back(place(gradient_like(result)));
  }
  if (!differentiable.empty()) torch::autograd::backward(differentiable, gradients);
  for (const auto& input : inputs) {
    if (input.requires_grad()) all.push_back(input.grad());
  }
  return all;
}

bool is_differentiated(const CaseInput& input) {
  return input.differentiate && (input.value.is_floating_point() || input.value.is_complex());
}

std::string show(const Lying& lying) {
  std::string text;
  for (const auto& each : lying) text += to_string(each) + " ";
  return text;
}

void expect_same(const torch::Tensor& got, const torch::Tensor& expected, double tolerance, const std::string& where) {
  ASSERT_EQ(got.defined(), expected.defined()) << where;
  if (!got.defined()) return;
  const auto whole = full(got);
  ASSERT_EQ(whole.sizes(), expected.sizes()) << where;
  ASSERT_EQ(whole.scalar_type(), expected.scalar_type()) << where;
  ASSERT_TRUE(torch::allclose(whole, expected, tolerance, tolerance, /*equal_nan=*/!expected.is_complex()))
      << where << "\n"
      << (whole - expected).abs().max() << "\n"
      << whole << expected;
}

}  // namespace

void expect_as_on_one_device(const OperatorCase& op, const Mesh& mesh, std::size_t at_most) {
  std::vector<torch::Tensor> plain;
  for (const auto& input : op.inputs) {
    plain.push_back(input.value.detach().clone().requires_grad_(is_differentiated(input)));
  }
  const auto expected = results_of(op, plain, [](const torch::Tensor& gradient) { return gradient; });
  for (const auto& lying : combinations(op, mesh.axes(), at_most)) {
    const auto where = op.name + " on " + to_string(mesh) + " with " + show(lying);
    std::vector<torch::Tensor> inputs;
    for (std::size_t i = 0; i < lying.size(); ++i) {
      inputs.push_back(distribute(op.inputs[i].value.detach().clone(), mesh, lying[i], Source::same_everywhere)
                           .requires_grad_(is_differentiated(op.inputs[i])));
    }
    try {
      const auto got = results_of(op, inputs, [&](const torch::Tensor& gradient) {
        return distribute(gradient, mesh, Placements(mesh.axes()), Source::same_everywhere);
      });
      ASSERT_EQ(got.size(), expected.size()) << where;
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_NO_FATAL_FAILURE(
            expect_same(got[i], expected[i], op.tolerance, where + "result or gradient " + std::to_string(i)));
      }
    } catch (const std::exception& error) {
      FAIL() << where << ": " << error.what();
    }
  }
}

}  // namespace lockstep::test
