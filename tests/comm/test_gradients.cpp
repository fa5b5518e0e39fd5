// Gradients through collectives, against the same computation in one process.
#include "comm/suite.h"

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

constexpr int kThree = 3;

// Of all ranks: the tensors that they pass, and what each of them gets.
using Tensors = std::vector<at::Tensor>;

struct Collective {
  std::string name;
  std::function<at::Tensor(const at::Tensor&, const Group&)> call;
  std::function<Tensors(const Tensors&)> model;
};

Tensors for_all(const at::Tensor& tensor) { return Tensors(kThree, tensor); }

at::Tensor sum_of(const Tensors& tensors) { return at::stack(tensors).sum(0); }

Tensors rows_of(const at::Tensor& whole) { return whole.chunk(kThree); }

const std::vector<Collective>& collectives() {
  static const std::vector<Collective> all = {
      {"all_gather", [](const auto& x, const auto& group) { return all_gather(x, group); },
       [](const Tensors& x) { return for_all(at::cat(x)); }},
      {"all_reduce sum",
       [](const auto& x, const auto& group) {
         auto whole = x * 1;
         all_reduce(whole, group);
         return whole;
       },
       [](const Tensors& x) { return for_all(sum_of(x)); }},
      {"all_reduce mean",
       [](const auto& x, const auto& group) {
         auto whole = x * 1;
         all_reduce(whole, group, ReduceOp::mean);
         return whole;
       },
       [](const Tensors& x) { return for_all(sum_of(x) / kThree); }},
      {"reduce_scatter sum", [](const auto& x, const auto& group) { return reduce_scatter(x, group); },
       [](const Tensors& x) { return rows_of(sum_of(x)); }},
      {"reduce_scatter mean", [](const auto& x, const auto& group) { return reduce_scatter(x, group, ReduceOp::mean); },
       [](const Tensors& x) { return rows_of(sum_of(x) / kThree); }},
      {"all_to_all", [](const auto& x, const auto& group) { return all_to_all(x, group); },
       [](const Tensors& x) {
         Tensors got;
         for (int to = 0; to < kThree; ++to) {
           Tensors parts;
           for (const auto& each : x) parts.push_back(each.chunk(kThree)[static_cast<std::size_t>(to)]);
           got.push_back(at::cat(parts));
         }
         return got;
       }}};
  return all;
}

at::Tensor input_of(int rank) {
  return (at::arange(12, at::kDouble).view({6, 2}) / 7 + rank).sin().requires_grad_(true);
}

// Another one on each rank, and not linear in the result.
at::Tensor loss_of(const at::Tensor& result, int rank) { return (result * result * (rank + 1) + result).sum(); }

at::Tensor penalty(const at::Tensor& gradient, int rank) { return (gradient * gradient * (2 * rank + 1)).sum(); }

TEST(Gradients, AreThoseOfTheSumOfAllLosses) {
  run_ranks(kThree, options_of({"shm", kThree}), [](Rank& rank) {
    for (const auto& [name, call, model] : collectives()) {
      SCOPED_TRACE(name);
      Tensors inputs;
      for (int r = 0; r < kThree; ++r) inputs.push_back(input_of(r));
      const auto& mine = inputs[static_cast<std::size_t>(rank.rank())];
      const auto x = input_of(rank.rank());
      Tensors squares;
      for (const auto& each : inputs) squares.push_back(each * each);
      const auto results = model(squares);
      auto whole_loss = at::zeros({}, at::kDouble);
      for (int r = 0; r < kThree; ++r) whole_loss = whole_loss + loss_of(results[static_cast<std::size_t>(r)], r);
      const auto expected = torch::autograd::grad({whole_loss}, inputs, {}, true, true);

      const auto result = call(x * x, rank.group());
      EXPECT_TRUE(result.requires_grad());
      EXPECT_TRUE(at::allclose(result, results[static_cast<std::size_t>(rank.rank())]));
      const auto loss = loss_of(result, rank.rank());
      const auto gradient = torch::autograd::grad({loss}, {x}, {}, true, true)[0];
      EXPECT_TRUE(at::allclose(gradient, expected[static_cast<std::size_t>(rank.rank())]));

      // And the gradients of these.
      auto whole_penalty = at::zeros({}, at::kDouble);
      for (int r = 0; r < kThree; ++r) {
        whole_penalty = whole_penalty + penalty(expected[static_cast<std::size_t>(r)], r);
      }
      whole_penalty.backward();
      penalty(gradient, rank.rank()).backward();
      EXPECT_TRUE(at::allclose(x.grad(), mine.grad()));
    }
  });
}

// "all_gather in a network": a leaf, a tensor without dimensions, and a sum in which other parts have gradients.
TEST(Gradients, ReachLeavesAndTensorsWithoutDimensions) {
  run_ranks(2, options_of({"shm", 2}), [](Rank& rank) {
    const auto leaf = at::full({}, 3.0).requires_grad_(true);
    const auto all = all_gather(leaf, rank.group());
    ((all * all).sum() + leaf).backward();
    EXPECT_TRUE(same(leaf.grad(), at::full({}, 2 * 2 * 3.0 + 1)));
  });
}

TEST(Gradients, OfOneRankAreItsOwn) {
  run_ranks(1, options_of({"self", 1}), [](Rank& rank) {
    for (const auto& each : collectives()) {
      const auto x = input_of(0);
      each.call(x * x, rank.group()).sum().backward();
      EXPECT_TRUE(at::allclose(x.grad(), 2 * x)) << each.name;
    }
  });
}

TEST(Gradients, AreRefusedWhereThereAreNone) {
  run_ranks(2, options_of({"shm", 2}), [](Rank& rank) {
    const auto& group = rank.group();
    const auto x = at::ones({4}).requires_grad_(true);
    const auto plain = at::ones({4});
    auto y = x * 2;
    auto output = at::empty({8});
    auto half = at::empty({2});
    struct Refused {
      std::function<void()> call;
      std::vector<std::string> words;
    };
    const std::string those = "all_reduce, all_gather, reduce_scatter and all_to_all do";
    const std::vector<Refused> calls = {
        {[&] { all_gather_async(output, y, group); }, {"all_gather_async does not differentiate: call all_gather"}},
        {[&] { all_gather_async(output, x, group); }, {"call all_gather"}},
        {[&] { reduce_scatter_async(half, y, group); }, {"call reduce_scatter"}},
        {[&] { reduce_scatter(y, group, ReduceOp::max); }, {"reduce_scatter of max", "result of all_gather"}},
        {[&] { all_to_all_async(y, plain, group); }, {"call all_to_all"}},
        {[&] { all_reduce_async(y, group); }, {"all_reduce_async does not", "call all_reduce"}},
        {[&] { all_reduce(y, group, ReduceOp::max); }, {"all_reduce of max", "the max of the result of all_gather"}},
        {[&] { broadcast(y, group); }, {"broadcast does not differentiate", those, "tensor.detach()", "NoGradGuard"}},
        {[&] { reduce(y, group, 0); }, {those}},
        {[&] { gather(y, group, 0); }, {those}},
        // Only root has a graph; the others see the difference.
        {[&] { scatter(rank.rank() == 0 ? y : at::Tensor(), group, 0, half); }, {"scatter does not differentiate"}},
    };
    for (const auto& [call, words] : calls) {
      const auto error = error_of(call);
      EXPECT_TRUE(error.kind() == ErrorKind::invalid_argument || error.kind() == ErrorKind::mismatch) << error.what();
      expect_words(error, words);
      expect_words(error, {"requires a gradient"});
    }
    if (rank.rank() == 0) expect_words(error_of([&] { send(y, group, 1); }), {"send does not differentiate", those});

    // What nobody differentiates is as before: parameters, detached tensors, and all under a guard.
    auto parameter = at::full({4}, rank.rank() + 1.0).requires_grad_(true);
    broadcast(parameter, group);
    all_reduce(parameter, group, ReduceOp::mean);
    EXPECT_TRUE(parameter.is_leaf());
    EXPECT_TRUE(same(parameter.detach(), at::ones({4})));
    auto detached = y.detach();
    all_reduce(detached, group);
    const at::NoGradGuard no_grad;
    all_gather_async(output, y, group).wait();
    EXPECT_FALSE(all_gather(y, group).requires_grad());
  });
}

// What a graph has saved of a tensor that is then reduced in place is an error of libtorch, as with its own operators.
TEST(Gradients, OfSavedTensorsThatWereOverwrittenAreRefused) {
  run_ranks(1, options_of({"self", 1}), [](Rank& rank) {
    const auto x = at::ones({4}).requires_grad_(true);
    auto y = x.exp();
    all_reduce(y, rank.group());
    try {
      y.sum().backward();
      ADD_FAILURE() << "no error";
    } catch (const c10::Error& error) {
      EXPECT_NE(std::string(error.what()).find("inplace operation"), std::string::npos) << error.what();
    }
  });
}

}  // namespace
}  // namespace lockstep::test
