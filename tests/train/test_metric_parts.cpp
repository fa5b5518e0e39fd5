// Metrics that a configuration names: beside brute force, and from sums of any division of the samples.
#include <lockstep/base/config.h>
#include <lockstep/train/plugins/error_origin.h>
#include <lockstep/train/task.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "base/expect_error.h"

namespace lockstep::train {
namespace {

using test::expect_error;

std::vector<std::shared_ptr<Metric>> read(const std::string& list) {
  const auto source = parse_config("metrics: " + list, "m.yaml");
  return metrics_of(*source.root.find("metrics"), shipped_metrics());
}

/// The values from rows that are divided into batches of these sizes, whose sums are added in another order.
Values values_of(const std::string& list, const torch::Tensor& output, const torch::Tensor& target,
                 const std::vector<std::int64_t>& sizes) {
  Values all;
  for (const auto& metric : read(list)) {
    std::vector<Sums> parts;
    std::int64_t first = 0;
    for (const auto size : sizes) {
      auto& sums = parts.emplace_back();
      for (const auto& [name, measure] :
           metric->measure(output.narrow(0, first, size), target.narrow(0, first, size))) {
        sums[name] = {measure.sum.item<double>(), measure.count};
      }
      first += size;
    }
    Sums sums;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      for (const auto& [name, sum] : *part) {
        sums[name].sum += sum.sum;
        sums[name].count += sum.count;
      }
    }
    all.merge(metric->values(sums));
  }
  return all;
}

struct Classes {
  torch::Tensor output;
  torch::Tensor target;
};

/// 40 rows of 4 classes, of which the last does not occur; every seventh target does not count.
Classes some_classes() {
  torch::manual_seed(3);
  const auto output = torch::randn({40, 4});
  auto target = torch::randint(0, 3, {40}, torch::kLong);
  for (std::int64_t i = 0; i < 40; i += 7) target[i] = -100;
  output.select(1, 3).fill_(-10);
  return {output, target};
}

const std::vector<std::vector<std::int64_t>> kDivisions{{40},       {20, 20}, {10, 10, 10, 10},
                                                        {1, 38, 1}, {0, 40},  {7, 0, 33}};

TEST(MetricParts, OfClassesAreThoseOfBruteForceHoweverTheSamplesAreDivided) {
  const auto [output, target] = some_classes();
  double hits = 0, hits2 = 0, count = 0;
  std::vector<std::vector<double>> confusion(4, std::vector<double>(4));
  for (std::int64_t i = 0; i < 40; ++i) {
    const auto t = target[i].item<std::int64_t>();
    if (t < 0) continue;
    ++count;
    std::int64_t better = 0;
    for (std::int64_t c = 0; c < 4; ++c) better += output[i][c].item<float>() > output[i][t].item<float>() ? 1 : 0;
    hits += better == 0 ? 1 : 0;
    hits2 += better < 2 ? 1 : 0;
    ++confusion[static_cast<std::size_t>(t)][static_cast<std::size_t>(output[i].argmax().item<std::int64_t>())];
  }
  double f1 = 0, recall = 0;
  for (std::size_t c = 0; c < 3; ++c) {
    double said = 0, meant = 0;
    for (std::size_t o = 0; o < 4; ++o) said += confusion[o][c], meant += confusion[c][o];
    const double p = said > 0 ? confusion[c][c] / said : 0, r = confusion[c][c] / meant;
    f1 += p + r > 0 ? 2 * p * r / (p + r) / 3 : 0;
    recall += r / 3;
  }
  const std::string list = "[accuracy, top_k: {k: 2}, f1, recall, precision: {average: micro}, confusion]";
  const auto whole = values_of(list, output, target, {40});
  EXPECT_DOUBLE_EQ(whole.at("accuracy"), hits / count);
  EXPECT_DOUBLE_EQ(whole.at("top_2"), hits2 / count);
  EXPECT_NEAR(whole.at("f1"), f1, 1e-12);
  EXPECT_NEAR(whole.at("recall"), recall, 1e-12);
  EXPECT_DOUBLE_EQ(whole.at("precision"), hits / count);  // each decision is one of a class
  for (std::size_t a = 0; a < 4; ++a) {
    for (std::size_t b = 0; b < 4; ++b) {
      EXPECT_EQ(whole.at("confusion_" + std::to_string(a) + "_" + std::to_string(b)), confusion[a][b]);
    }
  }
  for (const auto& division : kDivisions) EXPECT_EQ(values_of(list, output, target, division), whole);
}

TEST(MetricParts, OfNumbersAreThoseOfBruteForceHoweverTheSamplesAreDivided) {
  torch::manual_seed(4);
  const auto target = torch::randn({40, 3});
  const auto output = target + 0.3 * torch::randn({40, 3});
  const std::string list = "[mae, mse, rmse, r2]";
  const auto whole = values_of(list, output, target, {40});
  const auto difference = (output - target).to(torch::kDouble);
  EXPECT_NEAR(whole.at("mae"), difference.abs().mean().item<double>(), 1e-7);
  EXPECT_NEAR(whole.at("mse"), difference.square().mean().item<double>(), 1e-7);
  EXPECT_DOUBLE_EQ(whole.at("rmse"), std::sqrt(whole.at("mse")));
  const auto wide = target.to(torch::kDouble);
  EXPECT_NEAR(whole.at("r2"),
              1 - difference.square().sum().item<double>() / (wide - wide.mean()).square().sum().item<double>(), 1e-6);
  for (const auto& division : kDivisions) {
    for (const auto& [name, value] : values_of(list, output, target, division))
      EXPECT_NEAR(value, whole.at(name), 1e-13);
  }
}

TEST(MetricParts, TokensOfSequencesAreClassesToo) {
  const auto [output, target] = some_classes();
  EXPECT_EQ(values_of("[accuracy, f1]", output.reshape({4, 10, 4}), target.reshape({4, 10}), {4}),
            values_of("[accuracy, f1]", output, target, {40}));
}

TEST(MetricParts, WithoutAnyTargetThereIsNoValue) {
  const auto output = torch::randn({3, 4});
  const auto none = torch::full({3}, -100, torch::kLong);
  EXPECT_TRUE(values_of("[accuracy, top_k, f1, precision: {average: micro}]", output, none, {3}).empty());
  EXPECT_TRUE(values_of("[r2]", torch::randn({3}), torch::ones({3}), {3}).empty());
}

TEST(MetricParts, MistakesNameTheirPlace) {
  const auto fails = [](const std::string& list, std::initializer_list<std::string_view> words) {
    expect_error(ErrorKind::config, words, [&] { read(list); });
  };
  fails("[acuracy]", {"'acuracy'", "did you mean 'accuracy'", "m.yaml:1"});
  fails("[top_k: {n: 3}]", {"metrics.top_k", "'metrics.top_k.n'", "m.yaml:1"});
  fails("[top_k: {k: 0}]", {"out of range"});
  fails("accuracy", {"metrics"});
  fails("[mae, mse, mae]", {"items 1 and 3 both measure 'mae'", "m.yaml:1"});
  const auto metric = read("[accuracy]").front();
  expect_error(ErrorKind::config, {"accuracy", "[3, 4]", "[4]"}, [&] {
    metric->measure(torch::ones({3, 4}), torch::ones({4}, torch::kLong));
  });
  expect_error(ErrorKind::data, {"class 9", "4 classes"}, [&] {
    metric->measure(torch::ones({1, 4}), torch::full({1}, 9, torch::kLong));
  });
  expect_error(ErrorKind::config, {"mae", "[3]", "[4]"},
               [&] { read("[mae]").front()->measure(torch::ones({3}), torch::ones({4})); });
}

/// The AUC from rows that are divided into batches of these sizes, joined in another order.
Values auc_of(const torch::Tensor& output, const torch::Tensor& target, const std::vector<std::int64_t>& sizes) {
  const auto metric = read("[auc]").front();
  std::vector<torch::Tensor> parts;
  std::int64_t first = 0;
  for (const auto size : sizes) {
    parts.push_back(metric->rows(output.narrow(0, first, size), target.narrow(0, first, size)));
    first += size;
  }
  std::reverse(parts.begin(), parts.end());
  return metric->values_of_rows(torch::cat(parts));
}

TEST(MetricParts, AucIsThatOfAllPairsHoweverTheSamplesAreDivided) {
  torch::manual_seed(5);
  const auto output = torch::randint(-6, 6, {40, 1}).to(torch::kFloat) / 3;  // many ties
  const auto target = torch::rand({40, 1}).gt(0.7).to(torch::kFloat);
  double pairs = 0, right = 0;
  for (std::int64_t p = 0; p < 40; ++p) {
    for (std::int64_t n = 0; n < 40; ++n) {
      if (target[p].item<float>() != 1 || target[n].item<float>() != 0) continue;
      const auto a = output[p].item<float>(), b = output[n].item<float>();
      ++pairs;
      right += a > b ? 1 : a == b ? 0.5 : 0;
    }
  }
  ASSERT_GT(pairs, 100);
  for (const auto& sizes : kDivisions) EXPECT_DOUBLE_EQ(auc_of(output, target, sizes).at("auc"), right / pairs);
  EXPECT_DOUBLE_EQ(auc_of(output.squeeze(1), target.squeeze(1).to(torch::kLong), {40}).at("auc"), right / pairs);
}

TEST(MetricParts, AucHasNoValueForOneClassAndRefusesOtherTargets) {
  const auto output = torch::randn({6});
  EXPECT_TRUE(auc_of(output, torch::ones({6}), {6}).empty());
  EXPECT_TRUE(auc_of(output, torch::zeros({6}), {2, 4}).empty());
  expect_error(ErrorKind::data, {"auc", "0 or 1", "0.5"}, [&] { auc_of(output, torch::full({6}, 0.5), {6}); });
  expect_error(ErrorKind::config, {"auc", "[6, 2]", "[6]"}, [] {
    auc_of(torch::randn({6, 2}), torch::ones({6}), {6});
  });
}

// A plugin's metric is wrapped, so that its exceptions say whose they are.
TEST(MetricParts, OneOfAPluginKeepsItsRows) {
  const auto metric = with_error_origin(read("[auc]").front(), "libmine.so, metric auc");
  const auto output = torch::tensor({0.1F, 0.9F, 0.4F});
  const auto rows = metric->rows(output, torch::tensor({0.F, 1.F, 0.F}));
  ASSERT_TRUE(rows.defined());
  EXPECT_DOUBLE_EQ(metric->values_of_rows(rows).at("auc"), 1);
}

}  // namespace
}  // namespace lockstep::train
