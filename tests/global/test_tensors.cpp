// Global tensors as libtorch's: aliasing, autograd's bookkeeping, ways out, and what a wrong use says.
#include <lockstep/base/error.h>
#include <lockstep/global/dispatch/plan.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/mesh_state.h>

#include "base/expect_error.h"
#include "placed.h"
#include "support/ranks.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <sstream>
#include <thread>

namespace lockstep {
namespace {

using test::expect_words;
using test::placed;
using test::Rank;
using test::RankOptions;

void on_two(const std::function<void(Rank&, const Mesh&)>& body) {
  const RankOptions options{.group = RankOptions::test_group_options("shm")};
  test::run_ranks(2, options, [&](Rank& rank) { body(rank, Mesh(rank.group())); });
}

at::Tensor numbers(std::int64_t rows, std::int64_t columns) {
  return torch::arange(rows * columns, torch::kFloat).reshape({rows, columns});
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

using Write = std::function<void(at::Tensor&)>;

std::vector<std::pair<std::string, Write>> writes_through_views() {
  return {
      {"a column", [](at::Tensor& x) { x.select(1, 2).mul_(3); }},
      {"columns", [](at::Tensor& x) { x.narrow(1, 1, 2).add_(1); }},
      {"every other column", [](at::Tensor& x) { x.slice(1, 0, 4, 2).zero_(); }},
      {"the transposed", [](at::Tensor& x) { x.t().mul_(2); }},
      {"a view",
       [](at::Tensor& x) {
         x.view({6, 2, 2}).select(2, 1).mul_(5);
       }},
      {"a view of a view", [](at::Tensor& x) { x.t().narrow(0, 0, 2).unsqueeze(0).add_(4); }},
      {"parts", [](at::Tensor& x) { x.chunk(2, 1)[1].mul_(-1); }},
      {"detached", [](at::Tensor& x) { x.detach().mul_(2); }},
  };
}

TEST(GlobalTensors, WritesThroughViewsAreSeenInTheBase) {
  on_two([](Rank&, const Mesh& mesh) {
    for (const auto& [name, write] : writes_through_views()) {
      for (const auto& placement : {Replicate(), Shard(0)}) {
        auto expected = numbers(6, 4);
        auto x = placed(expected, mesh, {placement});
        write(expected);
        write(x);
        EXPECT_TRUE(torch::equal(full(x), expected)) << name << " of " << to_string(placement) << "\n" << full(x);
      }
    }
  });
}

TEST(GlobalTensors, GradientsPassWritesThroughViews) {
  on_two([](Rank&, const Mesh& mesh) {
    for (const auto& [name, write] : writes_through_views()) {
      if (name == "detached" || name == "parts") continue;
      for (const auto& placement : {Replicate(), Shard(0)}) {
        const auto gradient_of = [&write = write](at::Tensor x, const at::Tensor& weight) {
          x.requires_grad_();
          auto y = x * 2;
          write(y);
          (y * weight).sum().backward();
          return x.grad();
        };
        const auto expected = gradient_of(numbers(6, 4), numbers(6, 4));
        const auto got =
            gradient_of(placed(numbers(6, 4), mesh, {placement}), placed(numbers(6, 4), mesh, {Replicate()}));
        EXPECT_TRUE(torch::equal(full(got), expected)) << name << " of " << to_string(placement) << "\n" << full(got);
      }
    }
  });
}

TEST(GlobalTensors, AViewSeesWritesToItsBase) {
  on_two([](Rank&, const Mesh& mesh) {
    auto x = placed(numbers(6, 4), mesh, {Shard(0)});
    const auto column = x.select(1, 1);
    const auto copy = x.clone();
    x.add_(1);
    EXPECT_TRUE(torch::equal(full(column), numbers(6, 4).add(1).select(1, 1)));
    EXPECT_TRUE(torch::equal(full(copy), numbers(6, 4)));
    auto part = to_local(x);
    part.zero_();
    EXPECT_EQ(x.sum().item<float>(), 0);
  });
}

TEST(GlobalTensors, AViewOfAnEmptyTensorIsWrittenTo) {
  on_two([](Rank&, const Mesh& mesh) {
    const auto source = placed(numbers(6, 2), mesh, {Shard(0)});
    auto x = torch::empty({6, 4}, torch::TensorOptions(global_device()));
    x.narrow(1, 0, 2).copy_(source);
    x.narrow(1, 2, 2).copy_(source);
    EXPECT_TRUE(torch::equal(full(x), torch::cat({numbers(6, 2), numbers(6, 2)}, 1)));
  });
}

TEST(GlobalTensors, AViewOfRowsElsewhereIsWrittenTo) {
  on_two([](Rank&, const Mesh& mesh) {
    auto x = placed(numbers(6, 4), mesh, {Shard(0)});
    auto expected = numbers(6, 4);
    const auto first_rows = x.narrow(0, 0, 2);
    x.select(0, 1).copy_(torch::ones({4}));  // an ordinary tensor that all ranks have
    x.index_put_({4}, torch::full({4}, 2.0));
    expected.select(0, 1).fill_(1);
    expected.select(0, 4).fill_(2);
    EXPECT_TRUE(torch::equal(full(x), expected)) << full(x);
    EXPECT_TRUE(torch::equal(full(first_rows), expected.narrow(0, 0, 2))) << full(first_rows);
    x.select(0, 1).clone().add_(1);
    EXPECT_TRUE(torch::equal(full(x), expected)) << "a clone was written to";
    EXPECT_EQ(placements_of(x), Placements{Shard(0)});
  });
}

TEST(GlobalTensors, AViewOfRowsElsewhereIsWrittenToInInferenceMode) {
  on_two([](Rank&, const Mesh& mesh) {
    const c10::InferenceMode inference;  // where libtorch counts no writes
    auto x = distribute(numbers(6, 4), mesh, {Shard(0)}, Source::same_everywhere);
    const auto row = x.select(0, 1);
    const auto rows = x.narrow(0, 0, 2);
    row.add_(1);
    EXPECT_EQ(full(rows).sum().item<float>(), 32);
    x.zero_();
    EXPECT_EQ(full(row).sum().item<float>(), 0);
  });
}

TEST(GlobalTensors, WritesToViewsThatCannotBeAreErrorsOfLibtorch) {
  on_two([](Rank&, const Mesh& mesh) {
    auto x = placed(numbers(6, 4), mesh, {Shard(0)});
    const auto row = x.select(0, 1);
    EXPECT_EQ(message_of([&] { row.unsqueeze(0).expand({3, 4}).add_(1); }).find("no error"), std::string::npos);
    expect_words(message_of([&] { row.expand({3, 4}).zero_(); }), {"single memory location"});
    expect_words(message_of([&] { row.resize_({2}); }), {"resize_", "view", "clone()"});
    auto leaf = placed(numbers(6, 4), mesh, {Shard(0)}).requires_grad_();
    expect_words(message_of([&] { leaf.select(0, 1).add_(1); }), {"leaf"});
    const auto y = leaf * 2;
    const auto used = y.exp();  // keeps its result for backward
    used.select(0, 1).add_(1);
    expect_words(message_of([&] { used.sum().backward(); }), {"modified by an inplace operation"});
    EXPECT_TRUE(torch::equal(full(x), numbers(6, 4)));
  });
}

TEST(GlobalTensors, AViewOfRowsElsewhereSeesWritesToItsBase) {
  on_two([](Rank&, const Mesh& mesh) {
    const auto views_of = [](const at::Tensor& x) {
      const auto row = x.select(0, 1);
      auto views = x.split(2, 0);
      views.insert(views.end(), {row, row.view({2, 2}), row.view({2, 2}).t(), x.view({3, 8}), x.t().select(1, 4)});
      return views;
    };
    auto expected = numbers(6, 4);
    auto x = placed(expected, mesh, {Shard(0)});
    const auto expected_views = views_of(expected);
    const auto views = views_of(x);
    const auto expect_same = [&](const char* after) {
      for (std::size_t i = 0; i < views.size(); ++i) {
        EXPECT_TRUE(torch::equal(full(views[i]), expected_views[i])) << after << ", view " << i;
        EXPECT_EQ((views[i] * 2).sum().item<float>(), expected_views[i].sum().item<float>() * 2) << after << i;
      }
    };
    expect_same("nothing");
    for (auto* base : {&x, &expected}) base->add_(1);
    expect_same("add_");
    for (auto* base : {&x, &expected}) base->t().select(0, 2).mul_(3);  // through another view
    expect_same("a view's mul_");
    const torch::NoGradGuard no_grad;
    for (auto* base : {&x, &expected}) torch::mul_out(*base, *base, *base);
    expect_same("mul.out");
    for (const auto* of : {&views, &expected_views}) {
      for (const auto& view : *of) view.add_(1);
    }
    expect_same("add_ to each view");
  });
}

TEST(GlobalTensors, AViewOfRowsElsewhereIsFetchedAgainOnlyAfterAWrite) {
  on_two([](Rank&, const Mesh& mesh) {
    auto x = placed(numbers(6, 4), mesh, {Shard(0)});
    const auto row = x.select(0, 1);
    const auto sent_for = [&](const std::function<void()>& action) {
      reset_traffic(mesh);
      action();
      return traffic_of(mesh).calls();
    };
    EXPECT_EQ(sent_for([&] { row + 1; }), 0);
    EXPECT_EQ(sent_for([&] { x.add_(1); }), 0);
    EXPECT_EQ(sent_for([&] { row + 1; }), 1);
    EXPECT_EQ(sent_for([&] { row + 1; }), 0);
    auto other = x.clone();
    EXPECT_EQ(sent_for([&] {
                other.add_(1);
                row + 1;
              }),
              0);
    EXPECT_EQ(placements_of(row), Placements{Shard(0)});
    EXPECT_EQ(sent_for([&] { row.add_(1); }), 1);  // each rank is told the whole row
    EXPECT_EQ(sent_for([&] { row + 1; }), 0);
    const auto line = placed(torch::arange(6, torch::kFloat), mesh, {Shard(0)});
    const auto numbers_of_all = line.narrow(0, 2, 3);
    EXPECT_EQ(placements_of(numbers_of_all), Placements{Replicate()});
    EXPECT_EQ(sent_for([&] { numbers_of_all.add_(1); }), 0);
    EXPECT_EQ(sent_for([&] { numbers_of_all + 1; }), 0);
  });
}

TEST(GlobalTensors, GradientsPassViewsOfRowsElsewhere) {
  on_two([](Rank&, const Mesh& mesh) {
    const auto gradient_of = [](at::Tensor x, const at::Tensor& weight) {
      x.requires_grad_();
      auto y = x * 2;
      const auto row = y.select(0, 1);
      y.mul_(3);
      ((row + y) * row * weight).sum().backward();
      return x.grad();
    };
    const auto expected = gradient_of(numbers(6, 4), numbers(1, 4));
    const auto got = gradient_of(placed(numbers(6, 4), mesh, {Shard(0)}), placed(numbers(1, 4), mesh, {Replicate()}));
    EXPECT_TRUE(torch::equal(full(got), expected)) << full(got) << expected;
  });
}

TEST(GlobalTensors, PicturesKeepTheirChannelsLast) {
  on_two([](Rank& rank, const Mesh& mesh) {
    const auto format = at::MemoryFormat::ChannelsLast;
    const auto through_a_network = [](at::Tensor x, at::Tensor weight) {
      x.requires_grad_();
      weight.requires_grad_();
      const auto y = torch::batch_norm(torch::conv2d(x, weight, {}, 1, 1), {}, {}, {}, {}, true, 0.1, 1e-5, false);
      const auto z = torch::avg_pool2d(torch::relu(y), 2);
      (z * z).sum().backward();
      return std::vector<at::Tensor>{y.detach(), z.detach(), x.grad(), weight.grad()};
    };
    torch::manual_seed(1);
    const auto pictures = torch::randn({5, 3, 4, 4}).contiguous(format);
    const auto weight = torch::randn({4, 3, 3, 3}).contiguous(format);
    const auto expected = through_a_network(pictures.clone(), weight.clone());
    const auto part = rank.rank() == 0 ? pictures.narrow(0, 0, 3) : pictures.narrow(0, 3, 2);
    const auto global_weight = distribute(weight, mesh, {Replicate()});
    for (const auto& x : {distribute(pictures, mesh, {Shard(0)}), to_global(part.contiguous(format), mesh, {Shard(0)}),
                          redistribute(distribute(pictures, mesh, {Shard(2)}), {Shard(0)})}) {
      EXPECT_EQ(x.strides(), pictures.strides());
      EXPECT_TRUE(to_local(x).is_contiguous(format));
      const auto got = through_a_network(x.detach().clone(), global_weight.clone());
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(torch::allclose(full(got[i]), expected[i], 1e-4, 1e-5)) << i;
        EXPECT_EQ(got[i].strides(), expected[i].strides()) << i;
        EXPECT_TRUE(to_local(got[i]).is_contiguous(format)) << i;
      }
    }
    // Parts that do not agree are taken as they are, row by row as a whole.
    const auto mixed = to_global(rank.rank() == 0 ? part.contiguous(format) : part.contiguous(), mesh, {Shard(0)});
    EXPECT_TRUE(mixed.is_contiguous());
    EXPECT_TRUE(torch::equal(full(mixed), pictures));
  });
}

TEST(GlobalTensors, PicturesKeepTheirChannelsLastWhereARankHasNone) {
  const RankOptions options{.group = RankOptions::test_group_options("shm")};
  test::run_ranks(3, options, [](Rank& rank) {
    const Mesh mesh(rank.group());
    const auto format = at::MemoryFormat::ChannelsLast;
    const auto pictures = torch::arange(2 * 3 * 4 * 4, torch::kFloat).view({2, 3, 4, 4}).contiguous(format);
    const auto divided = distribute(pictures, mesh, {Shard(0)});
    for (const auto& to : {Replicate(), Shard(2)}) {
      const auto moved = redistribute(divided, {to});
      EXPECT_EQ(moved.strides(), pictures.strides());
      EXPECT_TRUE(to_local(moved).is_contiguous(format)) << to_string(to) << " on rank " << rank.rank();
    }
    EXPECT_TRUE(full(divided).is_contiguous(format)) << "on rank " << rank.rank();
  });
}

TEST(GlobalTensors, ABackwardThatBeginsWithAnOrdinaryTensorStaysOnItsThread) {
  on_two([](Rank&, const Mesh& mesh) {
    const auto thread = std::this_thread::get_id();
    auto x = placed(numbers(6, 4), mesh, {Shard(0)}).requires_grad_();
    int called = 0;
    const auto watched = [&](const at::Tensor& tensor) {
      tensor.register_hook([&](const at::Tensor&) {
        ++called;
        EXPECT_EQ(std::this_thread::get_id(), thread);
      });
      return tensor;
    };
    const auto loss = full(watched(x * 2)).sum() + full(watched(x * 3)).sum() + to_local(watched(x.sum()));
    ASSERT_FALSE(is_global(loss));
    loss.backward();
    EXPECT_EQ(called, 3);
    EXPECT_TRUE(torch::equal(full(x.grad()), torch::full({6, 4}, 6.0)));
  });
}

TEST(GlobalTensors, OtherLengthsOfSequencesNeedNoOtherPlan) {
  on_two([](Rank&, const Mesh& mesh) {
    torch::manual_seed(1);
    const auto scores = torch::randn({6, 4, 5}).log_softmax(2);
    const auto targets = torch::tensor({{1, 2, 3}, {3, 2, 1}, {2, 1, 2}, {4, 1, 4}});
    const auto global_scores = placed(scores, mesh, {Shard(1)});
    const auto global_targets = placed(targets, mesh, {Shard(0)});
    std::size_t plans = 0;
    for (const std::vector<std::int64_t>& lengths :
         {std::vector<std::int64_t>{1, 1, 3, 2}, {3, 1, 2, 1}, {2, 3, 1, 3}}) {
      const std::vector<std::int64_t> steps{6, 6 - lengths[0] / 2, 6, 5};
      const auto got = torch::ctc_loss(global_scores, global_targets, steps, lengths, 0, at::Reduction::None);
      const auto expected = torch::ctc_loss(scores, targets, steps, lengths, 0, at::Reduction::None);
      EXPECT_TRUE(torch::allclose(full(got), expected)) << full(got) << expected;
      if (plans != 0) {
        EXPECT_EQ(mesh.state()->plans().size(), plans);
      }
      plans = mesh.state()->plans().size();
    }
  });
}

TEST(GlobalTensors, AutogradKeepsItsBooks) {
  on_two([](Rank&, const Mesh& mesh) {
    auto x = placed(numbers(6, 4), mesh, {Shard(0)});
    EXPECT_FALSE(x.requires_grad());
    EXPECT_FALSE((x * 2).requires_grad());
    x.requires_grad_();
    EXPECT_TRUE(x.is_leaf());
    int called = 0;
    x.register_hook([&](const at::Tensor& gradient) {
      ++called;
      EXPECT_TRUE(is_global(gradient));
      return gradient * 10;
    });
    auto y = x * 2;
    EXPECT_TRUE(y.requires_grad());
    EXPECT_FALSE(y.is_leaf());
    EXPECT_FALSE(y.detach().requires_grad());
    {
      const torch::NoGradGuard no_grad;
      EXPECT_FALSE((x * 2).requires_grad());
    }
    y.retain_grad();
    y.sum().backward();
    y = x * 3;
    y.sum().backward();  // adds to what is there
    EXPECT_EQ(called, 2);
    EXPECT_TRUE(torch::equal(full(x.grad()), torch::full({6, 4}, 50.0)));
    const auto version = x._version();
    {
      const torch::NoGradGuard no_grad;
      x.add_(1);
    }
    EXPECT_GT(x._version(), version);
    EXPECT_NE(message_of([&] { x.add_(1); }).find("leaf"), std::string::npos);
    x.set_data(placed(numbers(6, 4), mesh, {Shard(1)}));
    EXPECT_EQ(placements_of(x), Placements{Shard(1)});
  });
}

TEST(GlobalTensors, ASecondDerivative) {
  on_two([](Rank&, const Mesh& mesh) {
    const auto second = [](at::Tensor x) {
      x.requires_grad_();
      const auto first = torch::autograd::grad({x.pow(3).sum()}, {x}, {}, true, true)[0];
      return torch::autograd::grad({first.sum()}, {x})[0];
    };
    EXPECT_TRUE(torch::equal(full(second(placed(numbers(3, 4), mesh, {Shard(1)}))), second(numbers(3, 4))));
  });
}

TEST(GlobalTensors, WaysOut) {
  on_two([](Rank&, const Mesh& mesh) {
    const auto x = placed(numbers(5, 3), mesh, {Shard(0)});
    EXPECT_TRUE(torch::equal(x.cpu(), numbers(5, 3)));
    EXPECT_TRUE(torch::equal(x.to(torch::kCPU, torch::kDouble), numbers(5, 3).to(torch::kDouble)));
    EXPECT_EQ(x.sum().item<double>(), 105);
    EXPECT_EQ(x.index({4, 2}).item<float>(), 14);
    auto ordinary = torch::zeros({5, 3});
    ordinary.copy_(x);
    EXPECT_TRUE(torch::equal(ordinary, numbers(5, 3)));
    auto back = placed(torch::zeros({5, 3}), mesh, {Shard(1)});
    back.copy_(ordinary);
    EXPECT_EQ(placements_of(back), Placements{Shard(1)});
    EXPECT_TRUE(torch::equal(full(back), numbers(5, 3)));
    EXPECT_TRUE(torch::equal(back, x));
    std::ostringstream printed;
    printed << x;
    expect_words(printed.str(), {"12", "14", "5,3"});
    const auto partial = placed(numbers(2, 2), mesh, {Partial()});
    EXPECT_TRUE(torch::equal(partial.cpu(), numbers(2, 2)));
    EXPECT_EQ(describe(partial), "float32[2, 2] on 2 (0): [Partial(sum)], here [2, 2]");
  });
}

TEST(GlobalTensors, SavedFromTheCpuAndLoaded) {
  on_two([](Rank&, const Mesh& mesh) {
    const auto x = placed(numbers(5, 3), mesh, {Shard(0)});
    std::stringstream file;
    torch::save(x.cpu(), file);
    at::Tensor loaded;
    torch::load(loaded, file);
    EXPECT_TRUE(torch::equal(loaded, numbers(5, 3)));
    expect_words(message_of([&] {
                   std::stringstream other;
                   torch::save(x, other);
                 }),
                 {"save tensor.cpu()"});
  });
}

TEST(GlobalTensors, GradientsAreClippedWhereTheyAre) {
  on_two([](Rank&, const Mesh& mesh) {
    set_strict_global_ops(true);
    const auto clipped = [](std::vector<at::Tensor> parameters, const std::vector<at::Tensor>& gradients) {
      for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].requires_grad_().mutable_grad() = gradients[i];
      const double norm = torch::nn::utils::clip_grad_norm_(parameters, 2.0);
      parameters[0].mutable_grad().mul_(norm);
      return parameters;
    };
    const auto expected = clipped({numbers(6, 4), numbers(2, 3)}, {numbers(6, 4).add(1), numbers(2, 3).neg()});
    const auto got =
        clipped({placed(numbers(6, 4), mesh, {Shard(0)}), placed(numbers(2, 3), mesh, {Shard(1)})},
                {placed(numbers(6, 4).add(1), mesh, {Shard(0)}), placed(numbers(2, 3).neg(), mesh, {Shard(1)})});
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(torch::allclose(full(got[i].grad()), expected[i].grad())) << i;
      EXPECT_EQ(placements_of(got[i].grad()), placements_of(got[i]));
    }
  });
}

TEST(GlobalTensors, TheirMemoryIsThatOfThePart) {
  on_two([](Rank&, const Mesh& mesh) {
    const auto expect_shown = [](const at::Tensor& x, const char* what) {
      const auto part = to_local(x);
      EXPECT_EQ(x.storage_offset() == 0, x.storage().data() == x.data_ptr()) << what;
      if (part.numel() > 0) {
        EXPECT_EQ(x.data_ptr(), part.data_ptr()) << what;
        EXPECT_EQ(x.data_ptr<float>(), part.data_ptr<float>()) << what;
      } else {
        EXPECT_NO_THROW(x.data_ptr<float>()) << what << ": not on one rank alone";
      }
      EXPECT_THROW(x.data_ptr<double>(), c10::Error) << what;
    };
    for (const auto& placement :
         {Placement(Replicate()), Placement(Shard(0)), Placement(Shard(1)), Placement(Partial())}) {
      auto x = placed(numbers(6, 4), mesh, {placement});
      expect_shown(x, "itself");
      expect_shown(x + 1, "a result");
      expect_shown(x.t(), "transposed");
      expect_shown(x.select(1, 3), "a column");
      expect_shown(x.narrow(0, 2, 3), "rows");
      expect_shown(x.detach(), "detached");
      const auto view = x.narrow(1, 1, 2);
      x.add_(1);
      expect_shown(view, "a view after a write");
      x.relu();  // finishes a partial value for good
      expect_shown(x, "finished");
      x.t_();
      expect_shown(x, "reshaped");
      x.resize_({2, 3});
      expect_shown(x, "resized");
      auto out = at::empty({0}, x.options());
      at::mul_out(out, x, x);
      expect_shown(out, "a result given");
    }
    const auto one_row = distribute(numbers(1, 4), mesh, {Shard(0)});
    expect_shown(one_row, "of one row");
    auto written = distribute(numbers(6, 4), mesh, {Shard(0)});
    std::fill_n(written.data_ptr<float>(), to_local(written).numel(), 3.0F);
    EXPECT_EQ(written.sum().item<float>(), 72);
  });
}

TEST(GlobalTensors, WrongUsesSayWhichArgument) {
  on_two([](Rank& rank, const Mesh& mesh) {
    const auto x = placed(numbers(6, 4), mesh, {Shard(0)});
    const auto ordinary = numbers(6, 4);
    expect_words(message_of([&] { x + ordinary; }), {"\"other\"", "ordinary", "distribute(", "to_global("});
    expect_words(message_of([&] { ordinary + x; }), {"\"self\"", "ordinary"});
    expect_words(message_of([&] { torch::cat({x, ordinary}); }), {"\"tensors\"", "ordinary"});
    expect_words(message_of([&] { torch::tensor(1.0).add_(x.sum()); }), {"ordinary"});
    auto result = torch::empty({6, 4});
    expect_words(message_of([&] { torch::add_out(result, x, x); }), {"add", "ordinary"});
    const Mesh other(rank.group());
    expect_words(message_of([&] { x + placed(ordinary, other, {Shard(0)}); }), {"\"self\"", "\"other\"", "meshes"});
    expect_words(message_of([&] {
                   to_global(torch::zeros({rank.rank() + 1, 2}), mesh, {Shard(0)});
                 }),
                 {"[3, 2]", "parts"});
    expect_words(message_of([&] { to_global(ordinary, mesh, {Shard(2)}); }), {"Shard(2)", "2 dimensions"});
    expect_words(message_of([&] { to_global(ordinary, mesh, {Shard(0), Shard(1)}); }), {"2 placements", "1 axes"});
    expect_words(message_of([&] { to_global(x, mesh, {Shard(0)}); }), {"ordinary", "global"});
    expect_words(message_of([&] { redistribute(ordinary, {Shard(0)}); }), {"distribute()"});
    expect_words(message_of([&] { to_local(ordinary); }), {"ordinary"});
    EXPECT_EQ((x + torch::tensor(2.0)).sum().item<float>(), 324);  // numbers may be ordinary
  });
}

}  // namespace
}  // namespace lockstep
