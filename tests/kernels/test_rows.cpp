// Optimizers of rows and sums of sparse rows, beside the same in double.
#include <lockstep/rows/row_rule.h>
#include <lockstep/rows/sparse_rows.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <random>

namespace lockstep::rows {
namespace {

using testing::ElementsAre;

const std::vector<RuleSettings> kRules{
    {.rule = Rule::sgd},
    {.rule = Rule::sgd, .weight_decay = 0.1},
    {.rule = Rule::momentum, .momentum = 0.9},
    {.rule = Rule::adagrad, .eps = 1e-8, .initial_accumulator = 0.5},
    {.rule = Rule::lazy_adam, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
    {.rule = Rule::lazy_adam, .weight_decay = 0.01, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-3},
    {.rule = Rule::ftrl, .l1 = 1e-8, .l2 = 1e-8, .initial_accumulator = 1},
    {.rule = Rule::ftrl, .l1 = 0.4, .l2 = 0.1, .initial_accumulator = 0.1}};

/// One weight, as the formulas of row_rule.h say, in double.
struct InDouble {
  double w = 0, first = 0, second = 0;

  void step(const RuleSettings& s, double gradient, double lr, int t) {
    const double g = gradient + s.weight_decay * w;
    switch (s.rule) {
      case Rule::sgd: w -= lr * g; break;
      case Rule::momentum:
        first = s.momentum * first + g;
        w -= lr * first;
        break;
      case Rule::adagrad:
        first += g * g;
        w -= lr * g / (std::sqrt(first) + s.eps);
        break;
      case Rule::lazy_adam:
        first = s.beta1 * first + (1 - s.beta1) * g;
        second = s.beta2 * second + (1 - s.beta2) * g * g;
        w -= lr / (1 - std::pow(s.beta1, t)) * first / (std::sqrt(second / (1 - std::pow(s.beta2, t))) + s.eps);
        break;
      case Rule::ftrl: {
        const double n = second + g * g;
        first += g - (std::sqrt(n) - std::sqrt(second)) / lr * w;
        second = n;
        const double sign = first < 0 ? -1 : 1;
        w = std::fabs(first) <= s.l1 ? 0 : -(first - sign * s.l1) / (std::sqrt(n) / lr + 2 * s.l2);
      }
    }
  }
};

std::vector<float> random_numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (auto& each : numbers) each = normal(random);
  return numbers;
}

/// Weights and states, with `offset` floats before each.
struct Table {
  std::vector<float> weights, first, second;
  std::size_t offset;

  Table(const RuleSettings& settings, const std::vector<float>& start, std::size_t shift)
      : weights(start.size() + shift),
        first(weights.size(), initial_state(settings, 0)),
        second(weights.size(), initial_state(settings, 1)),
        offset(shift) {
    std::ranges::copy(start, weights.begin() + static_cast<std::ptrdiff_t>(shift));
  }
  RowPlace place() { return {weights.data() + offset, {first.data() + offset, second.data() + offset}}; }
  float weight(std::size_t i) const { return weights[offset + i]; }
};

TEST(RowRules, FollowTheirFormulas) {
  constexpr std::size_t kCount = 67;
  for (const auto& settings : kRules) {
    SCOPED_TRACE(static_cast<int>(settings.rule));
    const auto start = random_numbers(kCount, 1);
    Table table(settings, start, 0);
    std::vector<InDouble> exact(kCount);
    for (std::size_t i = 0; i < kCount; ++i)
      exact[i] = {start[i], initial_state(settings, 0), initial_state(settings, 1)};
    for (int t = 1; t <= 20; ++t) {
      const double lr = 0.05 / t;
      const auto gradients = random_numbers(kCount, 100U + static_cast<unsigned>(t));
      apply(row_update(settings, lr, t), gradients.data(), table.place(), kCount);
      for (std::size_t i = 0; i < kCount; ++i) exact[i].step(settings, gradients[i], lr, t);
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      EXPECT_NEAR(table.weight(i), exact[i].w, 2e-5 * std::max(1.0, std::fabs(exact[i].w))) << i;
    }
  }
}

TEST(RowRules, GiveTheSameBitsWhateverLengthAndAlignment) {
  for (const auto& settings : kRules) {
    SCOPED_TRACE(static_cast<int>(settings.rule));
    for (std::size_t dim = 1; dim <= 67; ++dim) {
      const auto start = random_numbers(dim, 3), gradients = random_numbers(dim, 4);
      Table one_by_one(settings, start, 0);
      const auto update = row_update(settings, 0.01, 5);
      for (std::size_t i = 0; i < dim; ++i) {
        auto place = one_by_one.place();
        place.weights += i;
        for (auto& state : place.states) state += i;
        apply(update, gradients.data() + i, place, 1);
      }
      for (std::size_t shift = 0; shift < 9; ++shift) {
        Table table(settings, start, shift);
        std::vector<float> moved(dim + shift);
        std::ranges::copy(gradients, moved.begin() + static_cast<std::ptrdiff_t>(shift));
        apply(update, moved.data() + shift, table.place(), dim);
        for (std::size_t i = 0; i < dim; ++i) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(table.weight(i)), std::bit_cast<std::uint32_t>(one_by_one.weight(i)))
              << "dim " << dim << " shift " << shift << " number " << i;
        }
      }
    }
  }
}

TEST(RowRules, OfFtrlMakeWeightsZeroThatMatterLessThanTheirPenalty) {
  const RuleSettings settings{.rule = Rule::ftrl, .l1 = 10, .initial_accumulator = 1};
  Table table(settings, {0.5F, -0.25F}, 0);
  const std::vector<float> gradients{0.1F, 30.0F};
  apply(row_update(settings, 0.1, 1), gradients.data(), table.place(), 2);
  EXPECT_EQ(table.weight(0), 0);
  EXPECT_LT(table.weight(1), 0);
  const float before = table.weight(1);
  apply(row_update(settings, 0, 2), gradients.data(), table.place(), 2);  // a warm-up from 0: nothing changes
  EXPECT_EQ(table.weight(1), before);
}

TEST(RowRules, OfSgdAndAdagradLeaveWeightsAloneThatGotAZero) {
  for (const auto& settings : {kRules[0], kRules[3]}) {
    const std::vector<float> start{0.3F, -0.0F, -7.0F};
    Table table(settings, start, 0);
    const std::vector<float> zeros(3, 0.0F);
    apply(row_update(settings, 0.1, 1), zeros.data(), table.place(), 3);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(table.weight(i)), std::bit_cast<std::uint32_t>(start[i]));
    }
  }
}

TEST(SparseRowSums, AddOccurrencesInTheirOrder) {
  const std::vector<std::int64_t> ids{7, 2, 7, 7, 0};
  const std::vector<float> values{1e8F, 1, 3, 2, -1e8F, 3, 5, 4, 6, -0.0F};
  const auto sums = sum_by_id(ids, values.data(), 2);
  EXPECT_THAT(sums.ids, ElementsAre(0, 2, 7));
  EXPECT_THAT(sums.values, ElementsAre(6, 0, 3, 2, (1e8F + -1e8F) + 5, (1 + 3) + 4));
  EXPECT_FALSE(std::signbit(sums.values[1])) << "as sums that begin at +0";
  EXPECT_TRUE(sum_by_id({}, nullptr, 3).ids.empty());
}

int left_half(int count) {
  int left = 1;
  while (left * 2 < count) left *= 2;
  return left;
}

TEST(SparseRowSums, OverRanksAreThoseOfWholeTables) {
  std::mt19937 random(9);
  for (std::size_t ranks = 1; ranks <= 6; ++ranks) {
    constexpr std::size_t kRows = 12, kDim = 3;
    std::vector<std::vector<float>> whole(ranks, std::vector<float>(kRows * kDim, 0.0F));
    std::vector<SparseRows> sparse(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (std::size_t row = 0; row < kRows; ++row) {
        if (random() % 2 == 0) continue;
        sparse[rank].ids.push_back(static_cast<std::int64_t>(row));
        const auto values = random_numbers(kDim, static_cast<unsigned>(random()));
        std::ranges::copy(values, whole[rank].begin() + static_cast<std::ptrdiff_t>(row * kDim));
        sparse[rank].values.insert(sparse[rank].values.end(), values.begin(), values.end());
      }
    }
    const std::function<float(std::size_t, std::size_t, std::size_t)> tree = [&](std::size_t first, std::size_t count,
                                                                                 std::size_t i) -> float {
      if (count == 1) return whole[first][i];
      const auto left = static_cast<std::size_t>(left_half(static_cast<int>(count)));
      return tree(first, left, i) + tree(first + left, count - left, i);
    };
    std::vector<SparseRowsView> views;
    for (const auto& each : sparse) views.push_back({each.ids, each.values.data()});
    const auto divisor = static_cast<float>(ranks);
    const auto sums = sum_over_ranks(views, kDim, left_half, divisor);
    for (std::size_t row = 0; row < kRows; ++row) {
      const auto found = std::ranges::find(sums.ids, static_cast<std::int64_t>(row));
      const bool touched = std::ranges::any_of(sparse, [&](const auto& each) {
        return std::ranges::find(each.ids, static_cast<std::int64_t>(row)) != each.ids.end();
      });
      ASSERT_EQ(found != sums.ids.end(), touched) << row;
      if (!touched) continue;
      const auto place = static_cast<std::size_t>(found - sums.ids.begin());
      for (std::size_t k = 0; k < kDim; ++k) {
        EXPECT_EQ(std::bit_cast<std::uint32_t>(sums.values[place * kDim + k]),
                  std::bit_cast<std::uint32_t>(tree(0, ranks, row * kDim + k) / divisor));
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::rows
