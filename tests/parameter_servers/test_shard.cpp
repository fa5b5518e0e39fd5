// The rows of a parameter server: made when they are first changed, with the numbers that a whole table has.
#include <lockstep/parameter_servers/server_rows.h>
#include <lockstep/rows/row_rule.h>

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "parameter_servers/update_rows.h"

namespace lockstep::parameter_servers {
namespace {

constexpr std::int64_t kRows = 20'000;

TableSpec table_of(std::int64_t dim) {
  return {.name = "t.weight", .rows = kRows, .dim = dim, .seed = 11, .deviation = 0.1, .key = key_of("t.weight")};
}

/// All rows of a table one after the other, as a rank of data parallel has them.
struct WholeTable {
  std::int64_t dim;
  rows::RuleSettings rule;
  std::vector<float> weights;
  std::array<std::vector<float>, 2> states;

  WholeTable(std::int64_t of_dim, const rows::RuleSettings& of_rule) : dim(of_dim), rule(of_rule) {
    weights.resize(static_cast<std::size_t>(kRows * dim));
    for (std::int64_t row = 0; row < kRows; ++row) {
      rows::initial_row(11, row, 0.1, {weights.data() + row * dim, static_cast<std::size_t>(dim)});
    }
    for (std::size_t i = 0; i < rows::state_names(rule.rule).size(); ++i) {
      states[i].assign(weights.size(), rows::initial_state(rule, i));
    }
  }

  void update(const rows::SparseRows& gradients, const rows::RowUpdate& step) {
    for (std::size_t i = 0; i < gradients.ids.size(); ++i) {
      const auto first = gradients.ids[i] * dim;
      rows::RowPlace place{.weights = weights.data() + first};
      for (std::size_t k = 0; k < rows::state_names(rule.rule).size(); ++k) place.states[k] = states[k].data() + first;
      rows::apply(step, gradients.values.data() + i * static_cast<std::size_t>(dim), place,
                  static_cast<std::size_t>(dim));
    }
  }
};

rows::SparseRows some_gradients(std::mt19937& random, std::int64_t dim, std::int64_t some) {
  rows::SparseRows gradients;
  for (std::int64_t id = 0; id < kRows; id += 1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(some))) {
    gradients.ids.push_back(id);
    for (std::int64_t i = 0; i < dim; ++i)
      gradients.values.push_back(std::ldexp(static_cast<float>(random()), -32) - 0.5F);
  }
  return gradients;
}

TEST(Shard, HasTheNumbersOfAWholeTable) {
  for (const auto rule :
       {rows::Rule::sgd, rows::Rule::momentum, rows::Rule::adagrad, rows::Rule::lazy_adam, rows::Rule::ftrl}) {
    for (const std::int64_t dim : {1, 3, 16, 67}) {
      const rows::RuleSettings settings{.rule = rule,
                                        .momentum = 0.9,
                                        .beta1 = 0.9,
                                        .beta2 = 0.999,
                                        .eps = 1e-8,
                                        .l1 = 0.01,
                                        .l2 = 0.01,
                                        .initial_accumulator = 0.1};
      Shard shard(table_of(dim), settings);
      WholeTable whole(dim, settings);
      std::mt19937 random(5);
      for (std::int64_t step = 1; step <= 3; ++step) {
        const auto gradients = some_gradients(random, dim, 40);
        const auto of_step = rows::row_update(settings, 0.1, step);
        update_rows(shard, gradients, of_step);
        whole.update(gradients, of_step);
      }
      EXPECT_EQ(shard.steps(), 3);
      EXPECT_LT(shard.size(), kRows / 4);
      std::vector<float> row(static_cast<std::size_t>(dim));
      for (std::int64_t id = 0; id < kRows; ++id) {
        shard.read({&id, 1}, row.data());
        for (std::int64_t i = 0; i < dim; ++i) {
          ASSERT_EQ(row[static_cast<std::size_t>(i)], whole.weights[static_cast<std::size_t>(id * dim + i)])
              << "rule " << static_cast<int>(rule) << " dim " << dim << " row " << id;
        }
      }
    }
  }
}

TEST(Shard, IsTheSameAfterItsRowsWereMoved) {
  const rows::RuleSettings settings{.rule = rows::Rule::lazy_adam, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
  Shard from(table_of(4), settings), into(table_of(4), settings);
  std::mt19937 random(5);
  update_rows(from, some_gradients(random, 4, 2), rows::row_update(settings, 0.1, 1));
  ASSERT_GT(from.blocks(), 2U);
  std::size_t next = 0;
  for (std::size_t k = 0; k < from.blocks(); ++k) {
    const auto block = from.block(k);
    for (std::size_t i = 0; i < block.size(); i += from.width()) {
      into.put(from.ids()[next++], block.subspan(i, from.width()));
    }
  }
  ASSERT_EQ(next, from.ids().size());
  const auto more = some_gradients(random, 4, 3);
  for (auto* shard : {&from, &into}) update_rows(*shard, more, rows::row_update(settings, 0.1, 2));
  std::vector<float> a(4), b(4);
  for (std::int64_t id = 0; id < kRows; ++id) {
    from.read({&id, 1}, a.data());
    into.read({&id, 1}, b.data());
    ASSERT_EQ(a, b) << id;
  }
}

TEST(InitialRow, HasItsMeanAndDeviationAndDependsOnSeedRowAndColumn) {
  std::vector<float> numbers(64);
  double sum = 0, squares = 0;
  for (std::int64_t row = 0; row < 2000; ++row) {
    rows::initial_row(3, row, 0.5, numbers);
    for (const double number : numbers) {
      sum += number;
      squares += number * number;
    }
  }
  const double count = 2000 * 64;
  EXPECT_NEAR(sum / count, 0, 0.005);
  EXPECT_NEAR(std::sqrt(squares / count), 0.5, 0.005);
  std::vector<float> other(64), shorter(3);
  rows::initial_row(3, 1999, 0.5, other);
  EXPECT_EQ(other, numbers);
  rows::initial_row(3, 1999, 0.5, shorter);
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), numbers.begin()));
  rows::initial_row(4, 1999, 0.5, other);
  EXPECT_NE(other, numbers);
  rows::initial_row(3, 1998, 0.5, other);
  EXPECT_NE(other, numbers);
}

}  // namespace
}  // namespace lockstep::parameter_servers
