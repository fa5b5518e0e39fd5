// The loss of CTC against values by hand and against all paths; reading a network's output.
#include <apps/ocr/recognition/ctc.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

using ocr::BlankPlace;
using Numbers = std::vector<std::int64_t>;

ocr::CtcTargets one_word(const Numbers& classes) { return {classes, {static_cast<std::int64_t>(classes.size())}}; }

double loss_of(const at::Tensor& logits, const Numbers& classes, std::int64_t blank, bool zero_infinity = false) {
  return ocr::ctc_losses(logits, one_word(classes), blank, zero_infinity).item<double>();
}

TEST(CtcLoss, OfGivenValues) {
  const auto logits = torch::zeros({3, 1, 3});
  EXPECT_NEAR(loss_of(logits, {0}, 2), std::log(27.0 / 6), 1e-6);
  EXPECT_NEAR(loss_of(logits, {0}, 2), 1.5040774, 1e-6);
  EXPECT_EQ(loss_of(logits, {0, 0, 0}, 2), std::numeric_limits<double>::infinity());
  EXPECT_EQ(loss_of(logits, {0, 0, 0}, 2, /*zero_infinity=*/true), 0);
}

/// Equal neighbours as one, without blanks.
Numbers collapsed(const Numbers& path, std::int64_t blank) {
  Numbers word;
  for (std::size_t t = 0; t < path.size(); ++t) {
    if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) word.push_back(path[t]);
  }
  return word;
}

/// -log of the sum over all paths that are read as `word`.
double loss_by_all_paths(const at::Tensor& logits, const Numbers& word, std::int64_t blank) {
  const auto p = logits.to(torch::kDouble).softmax(2);
  const auto columns = p.size(0), classes = p.size(2);
  double sum = 0;
  for (std::int64_t code = 0; code < static_cast<std::int64_t>(std::pow(classes, columns)); ++code) {
    Numbers path;
    double product = 1;
    for (std::int64_t t = 0, rest = code; t < columns; ++t, rest /= classes) {
      path.push_back(rest % classes);
      product *= p[t][0][rest % classes].item<double>();
    }
    if (collapsed(path, blank) == word) sum += product;
  }
  return -std::log(sum);
}

TEST(CtcLoss, IsThatOfAllPaths) {
  torch::manual_seed(3);
  for (const std::int64_t blank : {0, 3}) {
    const std::int64_t first = blank == 0 ? 1 : 0;
    for (const auto& numbers : {Numbers{}, Numbers{0}, Numbers{1, 1}, Numbers{2, 0, 1}}) {
      const auto logits = torch::randn({5, 1, 4}) * 2;
      Numbers word;
      for (const auto number : numbers) word.push_back(number + first);
      EXPECT_NEAR(loss_of(logits, word, blank), loss_by_all_paths(logits, word, blank), 1e-5);
    }
  }
}

TEST(CtcLoss, IsOfEachWordAndInFloat32) {
  torch::manual_seed(3);
  const auto logits = torch::randn({6, 2, 4}).to(torch::kBFloat16);
  const auto losses = ocr::ctc_losses(logits, {{0, 1, 2}, {2, 1}}, 3, false);
  EXPECT_EQ(losses.scalar_type(), torch::kFloat);
  const auto wide = logits.to(torch::kFloat);
  EXPECT_FLOAT_EQ(losses[0].item<float>(), static_cast<float>(loss_of(wide.narrow(1, 0, 1), {0, 1}, 3)));
  EXPECT_FLOAT_EQ(losses[1].item<float>(), static_cast<float>(loss_of(wide.narrow(1, 1, 1), {2}, 3)));
}

TEST(CtcLoss, AnInfiniteOneHasNoGradient) {
  auto logits = torch::randn({3, 2, 3}).requires_grad_();
  ocr::ctc_losses(logits, {{0, 0, 0, 1}, {3, 1}}, 2, true).mean().backward();
  EXPECT_EQ(logits.grad().select(1, 0).abs().max().item<float>(), 0);
  EXPECT_GT(logits.grad().select(1, 1).abs().max().item<float>(), 0);
}

TEST(CtcColumns, AreOneForEachCharacterAndBetweenEqualOnes) {
  EXPECT_EQ(ocr::columns_needed({}), 0);
  EXPECT_EQ(ocr::columns_needed({1, 2, 3}), 3);
  EXPECT_EQ(ocr::columns_needed({1, 1, 1, 2, 2}), 8);
}

at::Tensor logits_of_path(const Numbers& path, double p) {
  auto logits = torch::full({static_cast<std::int64_t>(path.size()), 1, 37}, std::log((1 - p) / 36));
  for (std::size_t t = 0; t < path.size(); ++t) logits[static_cast<std::int64_t>(t)][0][path[t]] = std::log(p);
  return logits;
}

TEST(GreedyReading, MergesNeighboursAndDropsBlanks) {
  const ocr::Dictionary dictionary({}, "task");
  const auto last = ocr::read_greedily(logits_of_path({36, 12, 12, 36, 12, 10, 36}, 0.9), dictionary, BlankPlace::last);
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(last[0].text, "cca");
  EXPECT_NEAR(last[0].confidence, 0.9, 1e-5);
  const auto first = ocr::read_greedily(logits_of_path({0, 13, 13, 0, 13, 11, 0}, 0.9), dictionary, BlankPlace::first);
  EXPECT_EQ(first[0].text, "cca");
}

TEST(GreedyReading, ConfidenceIsOfTheColumnsThatAreKept) {
  const ocr::Dictionary dictionary({}, "task");
  auto logits = logits_of_path({36, 1, 1, 2}, 0.5);
  logits.select(0, 0) = logits_of_path({36}, 0.99)[0];
  logits.select(0, 2) = logits_of_path({1}, 0.99)[0];  // a repeat: not kept
  logits.select(0, 3) = logits_of_path({2}, 0.7)[0];
  EXPECT_NEAR(ocr::read_greedily(logits, dictionary, BlankPlace::last)[0].confidence, 0.6, 1e-5);
  const auto empty = ocr::read_greedily(logits_of_path({36, 36}, 0.9), dictionary, BlankPlace::last);
  EXPECT_EQ(empty[0].text, "");
  EXPECT_EQ(empty[0].confidence, 0);
}

}  // namespace
}  // namespace lockstep::test
