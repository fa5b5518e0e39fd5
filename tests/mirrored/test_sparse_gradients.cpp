// Gradients of sparse embeddings: rows that ranks exchange have the numbers of whole tables.
#include "mirrored/on_every_backend.h"

#include <lockstep/comm/collectives.h>

namespace lockstep::test {
namespace {

using SparseGradientsTest = OnEveryBackend;
INSTANTIATE_TEST_SUITE_P(All, SparseGradientsTest, testing::ValuesIn(every_backend()), case_name);

/// Two tables and a layer; ranks touch different rows, some the same, and rank 1 does not use the second table in
/// every other step.
struct Clicks : torch::nn::Module {
  explicit Clicks(bool sparse)
      : wide(torch::nn::EmbeddingOptions(40, 1).sparse(sparse)),
        deep(torch::nn::EmbeddingOptions(40, 5).sparse(sparse)) {
    register_module("wide", wide);
    register_module("deep", deep);
    register_module("layer", layer);
  }

  static at::Tensor ids(int rank, int step) {
    return (torch::arange(24) * (rank + 3) + 7 * step).remainder(11 + 9 * rank).reshape({6, 4});
  }

  at::Tensor loss(int rank, int step) {
    const auto used = ids(rank, step);
    auto out = wide(used).sum({1, 2}) * data({6}, rank, step);
    if (rank != 1 || step % 2 == 0) out = out + layer(deep(used).mean(1)).squeeze(1) * data({6}, rank, step + 50);
    return out.pow(2).mean();
  }

  torch::nn::Embedding wide, deep;
  torch::nn::Linear layer{5, 1};
};

std::shared_ptr<Clicks> clicks(bool sparse) {
  torch::manual_seed(7);
  return std::make_shared<Clicks>(sparse);
}

Gradients dense_gradients_of(const torch::nn::Module& module) {
  auto gradients = gradients_of(module);
  for (auto& each : gradients) {
    if (each.defined() && each.is_sparse()) each = each.to_dense();
  }
  return gradients;
}

void expect_same_bits(const Gradients& actual, const Gradients& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i].defined(), expected[i].defined()) << i;
    if (!actual[i].defined()) continue;
    EXPECT_TRUE(torch::equal(actual[i].contiguous().view(torch::kInt), expected[i].contiguous().view(torch::kInt)))
        << i;
  }
}

TEST_P(SparseGradientsTest, HaveTheBitsOfWholeTables) {
  for (const bool mean : {true, false}) {
    on_ranks([mean](Rank& rank) {
      const auto whole = clicks(false), dense = clicks(true), rows = clicks(true);
      DataParallel of_whole(whole, rank.group(), {.gradients_mean = mean});
      DataParallel of_dense(dense, rank.group(), {.gradients_mean = mean, .sparse_gradients = SparseGradients::dense});
      DataParallel of_rows(rows, rank.group(), {.gradients_mean = mean});
      for (int step = 0; step < 4; ++step) {
        for (const auto& module : {whole, dense, rows}) {
          module->zero_grad(true);
          module->loss(rank.rank(), step).backward();
        }
        EXPECT_EQ(dense->deep->weight.grad().is_sparse(), rank.size() == 1);
        EXPECT_TRUE(rows->deep->weight.grad().is_sparse());
        EXPECT_EQ(rows->deep->weight.grad().is_coalesced(), rank.size() > 1);
        expect_same_bits(dense_gradients_of(*dense), dense_gradients_of(*whole));
        expect_same_bits(dense_gradients_of(*rows), dense_gradients_of(*whole));
        expect_same_bits_on_all_ranks(dense_gradients_of(*rows), rank.group());
      }
    });
  }
}

TEST_P(SparseGradientsTest, AccumulateAndTakeRanksWithoutData) {
  on_ranks([](Rank& rank) {
    const auto whole = clicks(false), rows = clicks(true);
    DataParallel of_whole(whole, rank.group()), of_rows(rows, rank.group());
    for (int step = 0; step < 3; ++step) {
      for (const auto& [module, parallel] : {std::pair{whole, &of_whole}, std::pair{rows, &of_rows}}) {
        module->zero_grad(true);
        {
          const auto quiet = parallel->no_sync();
          module->loss(rank.rank(), step + 10).backward();
        }
        if (rank.rank() == rank.size() - 1 && step == 1) {
          parallel->backward_without_data();
        } else {
          module->loss(rank.rank(), step).backward();
        }
      }
      expect_close(dense_gradients_of(*rows), dense_gradients_of(*whole));
      expect_same_bits_on_all_ranks(dense_gradients_of(*rows), rank.group());
    }
  });
}

TEST_P(SparseGradientsTest, OfATableThatNoRankUsedStayAsTheyAre) {
  on_ranks([](Rank& rank) {
    const auto module = clicks(true);
    DataParallel parallel(module, rank.group());
    module->loss(0, 0).backward();
    const auto before = module->deep->weight.grad().to_dense().clone();
    module->wide(Clicks::ids(rank.rank(), 1)).sum().backward();
    EXPECT_TRUE(torch::equal(module->deep->weight.grad().to_dense(), before));
  });
}

TEST_P(SparseGradientsTest, OfModelsThatHaveNothingElse) {
  struct Table : torch::nn::Module {
    torch::nn::Embedding table =
        register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(9, 2).sparse(true)));
  };
  on_ranks([](Rank& rank) {
    const auto module = std::make_shared<Table>();
    DataParallel parallel(module, rank.group());
    module->table(torch::tensor({rank.rank(), 8, 8})).sum().backward();
    const auto gradient = module->table->weight.grad().to_dense();
    EXPECT_FLOAT_EQ(gradient[8][0].item<float>(), 2);
    EXPECT_FLOAT_EQ(gradient[0][1].item<float>(), 1.0F / static_cast<float>(rank.size()));
    EXPECT_EQ(gradient[7][0].item<float>(), 0);
    parallel.vote(1);
    module->zero_grad(true);
    module->table(torch::tensor({1})).sum().backward();
    EXPECT_EQ(parallel.votes(1), rank.size());
  });
}

TEST_P(SparseGradientsTest, GoOnAfterAnExceptionOfAllRanks) {
  on_ranks([](Rank& rank) {
    const auto whole = clicks(false), rows = clicks(true);
    DataParallel of_whole(whole, rank.group()), of_rows(rows, rank.group());
    rows->layer->weight.register_hook([fail = std::make_shared<bool>(true)](const at::Tensor&) {
      if (std::exchange(*fail, false)) throw std::runtime_error("on purpose");
    });
    EXPECT_THROW(rows->loss(0, 0).backward(), std::exception);
    for (int step = 1; step < 3; ++step) {
      for (const auto& module : {whole, rows}) {
        module->zero_grad(true);
        module->loss(rank.rank(), step).backward();
      }
      expect_same_bits(dense_gradients_of(*rows), dense_gradients_of(*whole));
    }
  });
}

TEST_P(SparseGradientsTest, AreRefusedWhereTheTableGetsADenseOneToo) {
  on_ranks([](Rank& rank) {
    if (rank.size() == 1) return;  // nothing to reduce
    const auto module = clicks(true);
    DataParallel parallel(module, rank.group());
    expect_error([&] { (module->wide->weight.sum() + module->loss(0, 0)).backward(); }, ErrorKind::unsupported,
                 {"wide.weight", "sparse_gradients=dense"});
  });
}

}  // namespace
}  // namespace lockstep::test
