#include "check_op.h"

#include "placed.h"

#include <lockstep/global/global_tensor.h>
#include <lockstep/global/placement.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <random>

namespace lockstep::test {
namespace {

at::Tensor values_of(const Input& input) {
  std::int64_t count = 1;
  for (const auto size : input.sizes) count *= size;
  const auto order = torch::randperm(count, torch::kLong).reshape(input.sizes);
  switch (input.kind) {
    case Input::Kind::index: return order.remainder(input.bound);
    case Input::Kind::mask: return order.remainder(2).to(torch::kBool);
    case Input::Kind::positive: return (order + 1).to(torch::kFloat).div(8);
    default: return (order - count / 2).to(torch::kFloat).add(0.5).div(8);
  }
}

struct Results {
  Tensors values;
  Tensors gradients;  ///< of floating inputs; undefined where there is none
};

/// `weight` gives each result's weight in the sum that is differentiated.
template <typename Weight>
Results run(const OpCase& op, Tensors inputs, Weight weight) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (op.differentiable && op.inputs[i].floating()) inputs[i].requires_grad_();
  }
  Results results{.values = op.run(inputs), .gradients = {}};
  if (!op.differentiable) return results;
  at::Tensor loss;
  for (const auto& value : results.values) {
    if (!value.requires_grad()) continue;
    const auto term = (value * weight(value)).sum();
    loss = loss.defined() ? loss + term : term;
  }
  loss.backward();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (op.inputs[i].floating()) results.gradients.push_back(inputs[i].grad());
  }
  return results;
}

at::Tensor weight_like(const at::Tensor& value) {
  return torch::arange(1, value.numel() + 1, torch::kFloat).remainder(7).sub(2).reshape(value.sizes()).div(4);
}

std::string difference(const at::Tensor& got, const at::Tensor& expected) {
  if (got.defined() != expected.defined()) return got.defined() ? "one too many" : "none";
  if (!expected.defined()) return "";
  if (!is_global(got)) return "an ordinary tensor came back";
  if (got.sizes() != expected.sizes()) return fmt::format("sizes [{}]", fmt::join(got.sizes(), ", "));
  if (got.scalar_type() != expected.scalar_type()) return "dtype " + describe(got);
  const auto mesh = mesh_of(got);
  if (local_sizes_of(got) != global::local_sizes(got.sizes(), placements_of(got), mesh.sizes(), mesh.coordinate()))
    return "the part has wrong sizes: " + describe(got);
  const auto whole = full(got.detach());
  const bool equal = whole.is_floating_point() ? torch::allclose(whole, expected.detach(), 1e-4, 1e-4, true)
                                               : torch::equal(whole, expected);
  if (equal) return "";
  std::ostringstream text;
  text << describe(got) << "\n" << whole << "\nexpected\n" << expected.detach();
  return text.str();
}

class Combinations {
 public:
  Combinations(const OpCase& op, const Mesh& mesh, const Trials& trials) : random_(trials.seed), most_(trials.most) {
    for (const auto& input : op.inputs) {
      ways_.push_back(ways_to_lie(static_cast<std::int64_t>(input.sizes.size()), input.floating()));
      for (std::size_t axis = 0; axis < mesh.axes(); ++axis) all_ *= static_cast<double>(ways_.back().size());
    }
    axes_ = mesh.axes();
  }
  std::size_t count() const { return all_ <= static_cast<double>(most_) ? static_cast<std::size_t>(all_) : most_; }

  /// The `number`-th where all are tried, else any.
  std::vector<Placements> at(std::size_t number) {
    std::vector<Placements> placements;
    const bool every = all_ <= static_cast<double>(most_);
    for (const auto& ways : ways_) {
      placements.emplace_back();
      for (std::size_t axis = 0; axis < axes_; ++axis) {
        placements.back().push_back(ways[(every ? number : random_()) % ways.size()]);
        number /= ways.size();
      }
    }
    return placements;
  }

 private:
  std::mt19937_64 random_;
  std::size_t most_;
  std::size_t axes_ = 1;
  double all_ = 1;
  std::vector<std::vector<Placement>> ways_;
};

std::string shown(const OpCase& op, const Mesh& mesh, const std::vector<Placements>& placements, std::uint64_t seed) {
  std::string text = op.name + " on " + to_string(mesh) + " of";
  for (std::size_t i = 0; i < placements.size(); ++i) {
    text += fmt::format(" [{}] {}", fmt::join(op.inputs[i].sizes, ", "), to_string(placements[i]));
  }
  return text + fmt::format(" (--gtest_random_seed={})", seed);
}

}  // namespace

std::size_t check_op(const OpCase& op, const Mesh& mesh, const Trials& trials) {
  torch::manual_seed(static_cast<std::int64_t>(trials.seed));
  set_strict_global_ops(op.has_rule);
  Tensors inputs;
  for (const auto& input : op.inputs) inputs.push_back(values_of(input));
  Tensors copies;
  for (const auto& input : inputs) copies.push_back(input.clone());
  const Results expected = run(op, copies, weight_like);
  Combinations combinations(op, mesh, trials);
  for (std::size_t number = 0; number < combinations.count(); ++number) {
    const auto placements = combinations.at(number);
    Tensors lying;
    for (std::size_t i = 0; i < inputs.size(); ++i) lying.push_back(placed(inputs[i], mesh, placements[i]));
    try {
      const Results got = run(op, lying, [&](const at::Tensor& value) {
        return placed(weight_like(value), mesh, Placements(mesh.axes()));
      });
      EXPECT_EQ(got.values.size(), expected.values.size()) << shown(op, mesh, placements, trials.seed);
      for (std::size_t i = 0; i < std::min(got.values.size(), expected.values.size()); ++i) {
        const auto wrong = difference(got.values[i], expected.values[i]);
        EXPECT_EQ(wrong, "") << "result " << i << " of " << shown(op, mesh, placements, trials.seed);
      }
      for (std::size_t i = 0; i < got.gradients.size(); ++i) {
        const auto wrong = difference(got.gradients[i], expected.gradients[i]);
        EXPECT_EQ(wrong, "") << "gradient " << i << " of " << shown(op, mesh, placements, trials.seed);
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << shown(op, mesh, placements, trials.seed) << ": " << error.what();
    }
  }
  return combinations.count();
}

}  // namespace lockstep::test
