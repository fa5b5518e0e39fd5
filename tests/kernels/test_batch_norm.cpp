// Batch norm in parts, with every instruction set, against libtorch's of the whole.
#include <lockstep/kernels/batch_norm.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <iostream>
#include <random>
#include <string>
#include <vector>

namespace lockstep::kernels {
namespace {

constexpr double kEps = 1e-5;

at::Tensor make_pictures(at::IntArrayRef sizes, at::ScalarType dtype, bool channels_last) {
  auto pictures = at::randn(sizes, dtype) * 3 + 100;
  return channels_last && sizes.size() == 4 ? pictures.contiguous(at::MemoryFormat::ChannelsLast) : pictures;
}

struct NormCase {
  std::vector<std::int64_t> sizes;
  at::ScalarType dtype;
  bool channels_last = false;
};

std::vector<NormCase> norm_cases() {
  std::vector<NormCase> all;
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    for (const bool last : {false, true}) {
      for (const std::vector<std::int64_t>& sizes :
           {std::vector<std::int64_t>{6, 5, 7, 9}, {3, 64, 2, 2}, {5, 1, 16, 16}, {9, 33, 1, 1}, {4, 3, 40, 20}}) {
        all.push_back({sizes, dtype, last});
      }
    }
    all.push_back({{12, 7}, dtype});
    all.push_back({{4, 6, 11}, dtype});
    all.push_back({{3, 4, 2, 3, 5}, dtype});
  }
  return all;
}

std::string text_of(const NormCase& each) {
  std::ostringstream text;
  text << at::IntArrayRef(each.sizes) << " " << each.dtype << (each.channels_last ? " channels_last" : "");
  return text.str();
}

double tolerance(const NormCase& each) { return each.dtype == at::kDouble ? 1e-10 : 2e-4; }

void expect_near(const at::Tensor& actual, const at::Tensor& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  EXPECT_TRUE(at::allclose(actual.to(at::kDouble), expected.to(at::kDouble), tolerance, tolerance))
      << what << ": " << (actual.to(at::kDouble) - expected.to(at::kDouble)).abs().max();
}

struct Way {
  const char* name;
  double accuracy;  ///< of a variance beside a mean 1e5 times as large as its root
  const BatchNorm& norm;
};

const Way kLoops{"loops", 1e-6, batch_norm_by_loops};
const Way kOperators{"operators", 1e-4, batch_norm_by_operators};

void PrintTo(const Way& way, std::ostream* to) { *to << way.name; }

class BatchNormWays : public testing::TestWithParam<Way> {};

INSTANTIATE_TEST_SUITE_P(All, BatchNormWays, testing::Values(kLoops, kOperators),
                         [](const auto& way) { return std::string(way.param.name); });

TEST_P(BatchNormWays, OfPartsIsLibtorchsOfTheWhole) {
  const BatchNorm& norm = GetParam().norm;
  torch::manual_seed(3);
  for (const auto& each : norm_cases()) {
    SCOPED_TRACE(text_of(each));
    const auto input = make_pictures(each.sizes, each.dtype, each.channels_last);
    const auto gradient = at::randn_like(input);
    const auto channels = input.size(1);
    const auto weight = at::randn({channels}, each.dtype);
    const auto bias = at::randn({channels}, each.dtype);
    auto running_mean = at::zeros({channels}, each.dtype);
    auto running_var = at::ones({channels}, each.dtype);
    const auto [output, save_mean, save_invstd] =
        at::native_batch_norm(input, weight, bias, running_mean, running_var, /*training=*/true, 0.1, kEps);
    const auto [of_input, of_weight, of_bias] =
        at::native_batch_norm_backward(gradient, input, weight, running_mean, running_var, save_mean, save_invstd,
                                       /*train=*/true, kEps, {true, true, true});

    // Parts of different sizes, one of them without pictures.
    const auto pictures = input.size(0);
    const std::vector<std::int64_t> parts{pictures - 1, 0, 1};
    std::vector<at::Tensor> moments;
    for (const auto& part : input.split_with_sizes(parts)) moments.push_back(norm.moments(part));
    const auto joined = norm.joined(at::stack(moments));
    const auto statistics = norm.normalized(input, {}, {}, joined, kEps);
    const auto limit = tolerance(each);
    expect_near(statistics.mean, save_mean, limit, "mean");
    expect_near(statistics.inverse_deviation, save_invstd, limit, "inverse deviation");
    auto mine_mean = at::zeros({channels}, each.dtype);
    auto mine_var = at::ones({channels}, each.dtype);
    norm.update_running(mine_mean, statistics.mean, 0.1);
    norm.update_running(mine_var, statistics.sample_variance, 0.1);
    expect_near(mine_mean, running_mean, limit, "running mean");
    expect_near(mine_var, running_var, limit, "running variance");

    auto sums = at::zeros({2, channels}, at::kDouble);
    const auto input_parts = input.split_with_sizes(parts);
    const auto gradient_parts = gradient.split_with_sizes(parts);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      sums += norm.gradient_sums(gradient_parts[i], input_parts[i], statistics.mean, statistics.inverse_deviation);
    }
    expect_near(sums[0], of_weight, limit * 10, "gradient of weight");
    expect_near(sums[1], of_bias, limit * 10, "gradient of bias");
    const auto values = static_cast<double>(input.numel() / channels);
    std::vector<at::Tensor> outputs;
    std::vector<at::Tensor> gradients;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto& part = input_parts[i];
      outputs.push_back(norm.normalized(part, weight, bias, joined, kEps).output);
      gradients.push_back(norm.gradient_of_input(gradient_parts[i], part, weight, statistics.mean,
                                                 statistics.inverse_deviation, sums, values));
      EXPECT_EQ(outputs.back().scalar_type(), each.dtype);
      if (each.channels_last && part.numel() > 0) {
        EXPECT_TRUE(outputs.back().is_contiguous(at::MemoryFormat::ChannelsLast));
        EXPECT_TRUE(gradients.back().is_contiguous(at::MemoryFormat::ChannelsLast));
      }
    }
    expect_near(at::cat(outputs), output, limit, "output");
    expect_near(at::cat(gradients), of_input, limit, "gradient of input");
  }
}

TEST_P(BatchNormWays, KeepsVariancesBesideLargeMeans) {
  const BatchNorm& norm = GetParam().norm;
  const auto input = at::randn({64, 3, 8, 8}, at::kFloat) * 1e-2 + 1000;
  const auto expected = input.to(at::kDouble).var(at::IntArrayRef{0, 2, 3}, /*unbiased=*/true);
  const auto parts = input.split(20);
  std::vector<at::Tensor> moments;
  for (const auto& part : parts) moments.push_back(norm.moments(part));
  const auto statistics = norm.normalized(input, {}, {}, norm.joined(at::stack(moments)), kEps);
  expect_near(statistics.sample_variance / expected, at::ones({3}), GetParam().accuracy, "variance");
}

TEST_P(BatchNormWays, ComputesNarrowFloatsInFloat32) {
  const BatchNorm& norm = GetParam().norm;
  const auto input = (at::randn({8, 6, 5, 5}) + 2).to(at::kBFloat16);
  const auto gradient = at::randn({8, 6, 5, 5}).to(at::kBFloat16);
  const auto wide = input.to(at::kFloat);
  const auto weight = at::rand({6}) + 0.5;
  const auto bias = at::randn({6});
  const auto moments = norm.moments(input);
  const auto [output, mean, deviation, variance] = norm.normalized(input, weight, bias, moments, kEps);
  expect_near(mean, wide.mean(at::IntArrayRef{0, 2, 3}), 1e-5, "mean");
  EXPECT_EQ(output.scalar_type(), at::kBFloat16);
  expect_near(output, norm.normalized(wide, weight, bias, moments, kEps).output, 1e-2, "output");
  const auto sums = norm.gradient_sums(gradient, input, mean, deviation);
  const auto found = norm.gradient_of_input(gradient, input, weight, mean, deviation, sums, 200);
  EXPECT_EQ(found.scalar_type(), at::kBFloat16);
  expect_near(found, norm.gradient_of_input(gradient.to(at::kFloat), wide, weight, mean, deviation, sums, 200), 1e-2,
              "gradient of input");
}

TEST(BatchNorm, TakesTensorsThatAreNotDense) {
  const auto whole = at::randn({6, 8, 5, 10});
  const BatchNorm& norm = batch_norm_for(whole);
  EXPECT_EQ(&norm, &batch_norm_by_loops);
  const auto input = whole.slice(1, 0, 8, 2).slice(3, 1, 10, 3);
  const auto gradient = at::randn({1, 4, 1, 1}).expand(input.sizes());
  const auto dense = input.contiguous();
  const auto [output, mean, deviation, variance] = norm.normalized(input, {}, {}, norm.moments(input), kEps);
  const auto of_dense = norm.normalized(dense, {}, {}, norm.moments(dense), kEps);
  EXPECT_TRUE(mean.equal(of_dense.mean));
  EXPECT_TRUE(output.equal(of_dense.output));
  const auto sums = norm.gradient_sums(gradient, input, mean, deviation);
  EXPECT_TRUE(norm.gradient_of_input(gradient, input, {}, mean, deviation, sums, 90)
                  .equal(norm.gradient_of_input(gradient.contiguous(), dense, {}, mean, deviation, sums, 90)));
}

template <typename Number>
const BatchNormLoops<Number>& loops_of(const BatchNormTable& table) {
  if constexpr (std::is_same_v<Number, float>) {
    return table.of_float;
  } else {
    return table.of_double;
  }
}

/// Everything the loops of a set come to.
template <typename Number>
std::vector<double> results(const BatchNormTable& table, const ChannelLayout& layout) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal(2, 3);
  const auto count = static_cast<std::size_t>(layout.pictures * layout.channels * layout.positions);
  const auto channels = static_cast<std::size_t>(layout.channels);
  const auto make = [&](auto type, std::size_t size) {
    std::vector<decltype(type)> made(size);
    for (auto& each : made) each = static_cast<decltype(type)>(normal(random));
    return made;
  };
  const auto input = make(Number{}, count);
  const auto gradient = make(Number{}, count);
  const auto factor = make(double{}, channels);
  const auto shift = make(double{}, channels);
  std::vector<double> mean(channels), squares(channels), with_input(channels), alone(channels);
  std::vector<Number> scaled(count), of_input(count);
  const auto& loops = loops_of<Number>(table);
  const ChannelRange halves[] = {{0, layout.channels / 2}, {layout.channels / 2, layout.channels}};
  for (const auto range : halves) {
    loops.moments(input.data(), layout, range, mean.data(), squares.data());
    loops.scale(input.data(), layout, range, factor.data(), shift.data(), scaled.data());
    loops.sums(gradient.data(), input.data(), layout, range, mean.data(), with_input.data(), alone.data());
    loops.gradient(gradient.data(), input.data(), layout, range, mean.data(), factor.data(), shift.data(),
                   squares.data(), of_input.data());
  }
  std::vector<double> all;
  for (const auto* each : {&mean, &squares, &with_input, &alone}) all.insert(all.end(), each->begin(), each->end());
  for (const auto* each : {&scaled, &of_input}) all.insert(all.end(), each->begin(), each->end());
  return all;
}

TEST(BatchNorm, EveryInstructionSetComesToTheSameBits) {
  for (std::size_t missing = batch_norm_sets().size(); missing < 3; ++missing) {
    std::cout << "skipped: BatchNorm with " << (missing == 1 ? "avx2" : "avx512") << ": not on this machine\n";
  }
  for (const bool last : {false, true}) {
    const ChannelLayout layout{.pictures = 5, .channels = 37, .positions = 41, .last = last};
    const auto expected_float = results<float>(*batch_norm_sets().front().table, layout);
    const auto expected_double = results<double>(*batch_norm_sets().front().table, layout);
    for (const auto& set : batch_norm_sets()) {
      EXPECT_EQ(results<float>(*set.table, layout), expected_float) << set.name;
      EXPECT_EQ(results<double>(*set.table, layout), expected_double) << set.name;
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
