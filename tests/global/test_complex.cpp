// Complex numbers on a mesh: libtorch's lazy conj() and negative, which are bits on a tensor rather than numbers, and
// sums of complex parts.
#include <lockstep/global/global_tensor.h>

#include "every_placement.h"
#include "support/ranks.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using test::CaseInput;
using test::OperatorCase;
using test::Rank;
using test::RankOptions;
using Tensors = std::vector<torch::Tensor>;

CaseInput complex_numbers(std::vector<std::int64_t> sizes) {
  return {.value = torch::complex(torch::randn(sizes, torch::kDouble), torch::randn(sizes, torch::kDouble))};
}

CaseInput real_numbers(std::vector<std::int64_t> sizes) { return {.value = torch::randn(sizes, torch::kDouble)}; }

OperatorCase of_one(std::string name, torch::Tensor (*run)(const torch::Tensor&), std::vector<std::int64_t> sizes) {
  return {
      std::move(name), {complex_numbers(std::move(sizes))}, [run](const Tensors& in) { return Tensors{run(in[0])}; }};
}

OperatorCase of_two(std::string name, torch::Tensor (*run)(const torch::Tensor&, const torch::Tensor&),
                    std::vector<std::int64_t> first, std::vector<std::int64_t> second) {
  return {std::move(name),
          {complex_numbers(std::move(first)), complex_numbers(std::move(second))},
          [run](const Tensors& in) { return Tensors{run(in[0], in[1])}; }};
}

using T = const torch::Tensor&;

std::vector<OperatorCase> lazy_bits() {
  return {
      of_one("conj", [](T x) { return x.conj(); }, {5, 3}),
      of_one("conj of conj", [](T x) { return x.conj().conj(); }, {5, 3}),
      of_one("conj of one row", [](T x) { return x.conj(); }, {1, 3}),
      of_one("resolve_conj", [](T x) { return x.conj().resolve_conj(); }, {5, 3}),
      of_one("conj_physical", [](T x) { return x.conj_physical(); }, {5, 3}),
      of_one("conj_physical of conj", [](T x) { return x.conj().conj_physical(); }, {5, 3}),
      of_one("clone of conj", [](T x) { return x.conj().clone(); }, {5, 3}),
      of_one("contiguous conj", [](T x) { return x.t().conj().contiguous(); }, {5, 3}),
      of_one("views of conj", [](T x) { return x.conj().t().narrow(0, 1, 2).unsqueeze(0); }, {5, 3}),
      of_one("real of conj", [](T x) { return at::real(x.conj()) * 2; }, {5, 3}),
      of_one("imag of conj", [](T x) { return at::imag(x.conj()); }, {5, 3}),
      of_one("sum of imag of conj", [](T x) { return at::imag(x.conj()).sum(0); }, {5, 3}),
      of_one("arithmetic with a lazy negative", [](T x) { return at::imag(x.conj()).exp() + at::imag(x); }, {5, 3}),
      of_one("transposed negative, added to", [](T x) { return at::imag(x.conj()).t() + 1; }, {5, 3}),
      of_one("largest of a negative", [](T x) { return at::imag(x.conj()).amax(0); }, {5, 3}),
      of_one("view_as_real", [](T x) { return at::view_as_real(x.conj().resolve_conj()); }, {5, 3}),
      of_one("view_as_complex", [](T x) { return at::view_as_complex(at::view_as_real(x) * 2).conj(); }, {5, 3}),
      of_one("sum of conj", [](T x) { return x.conj().sum(); }, {5, 3}),
      of_one("sum of columns of conj", [](T x) { return x.conj().sum(1); }, {5, 3}),
      of_one("abs of conj", [](T x) { return x.conj().abs(); }, {5, 3}),
      of_one("angle of conj", [](T x) { return x.conj().angle(); }, {5, 3}),
      of_one("exp of conj", [](T x) { return x.conj().exp(); }, {5, 3}),
      of_one("fft of conj", [](T x) { return at::fft_fft(x.conj()); }, {5, 4}),
      of_one("det of conj", [](T x) { return at::linalg_det(x.conj()); }, {4, 4}),
      of_one("inverse of conj", [](T x) { return at::linalg_inv(x.conj()); }, {4, 4}),
      of_one("adjoint", [](T x) { return x.mH().mm(x); }, {5, 3}),
      of_two("mul of conj", [](T x, T y) { return x.conj() * y; }, {5, 3}, {5, 3}),
      of_two("mul by conj", [](T x, T y) { return x * y.conj(); }, {5, 3}, {3}),
      of_two("mm of conj", [](T x, T y) { return x.conj().mm(y); }, {5, 3}, {3, 4}),
      of_two("mm by conj", [](T x, T y) { return x.mm(y.conj().t()); }, {5, 3}, {4, 3}),
      of_two("mm", [](T x, T y) { return x.mm(y); }, {5, 4}, {4, 3}),
      of_two("bmm of conj", [](T x, T y) { return at::bmm(x.conj(), y); }, {2, 5, 3}, {2, 3, 4}),
      of_two("matmul of conj", [](T x, T y) { return at::matmul(x.conj(), y); }, {2, 5, 3}, {3, 4}),
      of_two("tensordot of conj",
             [](T x, T y) {
               return at::tensordot(x.conj(), y, {0, 1}, {0, 1});
             },
             {5, 3}, {5, 3}),
      of_two("vdot", [](T x, T y) { return at::vdot(x, y.conj()); }, {7}, {7}),
      of_two("dot of conj", [](T x, T y) { return at::dot(x.conj(), y); }, {7}, {7}),
      of_two("cat of conj",
             [](T x, T y) {
               return at::cat({x.conj(), y}, 1);
             },
             {5, 3}, {5, 2}),
      of_two("stack of conj",
             [](T x, T y) {
               return at::stack({x.conj(), y.conj()}, 1);
             },
             {5, 3}, {5, 3}),
      of_two("where of conj", [](T x, T y) { return at::where(at::real(x) > 0, x.conj(), y); }, {5, 3}, {5, 3}),
  };
}

std::vector<OperatorCase> writes() {
  return {
      of_two("write through conj",
             [](T x, T y) {
               const auto own = x * 1;
               own.conj().mul_(y);
               return own;
             },
             {5, 3}, {5, 3}),
      of_two("copy_ of conj",
             [](T x, T y) {
               const auto own = x * 1;
               return own.copy_(y.conj()).clone();
             },
             {5, 3}, {5, 3}),
      of_two("copy_ into conj",
             [](T x, T y) {
               const auto own = x * 1;
               own.conj().copy_(y);
               return own;
             },
             {5, 3}, {5, 3}),
      of_two("add_ of conj",
             [](T x, T y) {
               const auto own = x * 1;
               return own.add_(y.conj());
             },
             {5, 3}, {5, 3}),
      {"write through a lazy negative",
       {complex_numbers({5, 3}), real_numbers({5, 3})},
       [](const Tensors& in) {
         const auto own = in[0].detach().clone();
         at::imag(own.conj()).add_(in[1].detach());
         return Tensors{own};
       }},
  };
}

std::vector<OperatorCase> complex_sums() {
  return {
      {"complex",
       {real_numbers({5, 3}), real_numbers({5, 3})},
       [](const Tensors& in) { return Tensors{at::complex(in[0], in[1])}; }},
      {"polar",
       {real_numbers({5, 3}), real_numbers({5, 3})},
       [](const Tensors& in) { return Tensors{at::polar(in[0].abs() + 1, in[1])}; }},
      of_one("mean", [](T x) { return x.mean(0); }, {5, 3}),
      of_one("var", [](T x) { return x.var(/*unbiased=*/true); }, {5, 3}),
      of_one("var of columns", [](T x) { return x.var(0, /*unbiased=*/false); }, {5, 3}),
      {"std_mean",
       {{.value = complex_numbers({5, 3}).value, .differentiate = false}},
       [](const Tensors& in) {
         const auto [std, mean] = at::std_mean(in[0], 0);
         return Tensors{std, mean};
       }},
      of_one("norm", [](T x) { return at::linalg_vector_norm(x, 2); }, {5, 3}),
      of_one("norm of rows", [](T x) { return at::linalg_vector_norm(x, 1, at::IntArrayRef{1}); }, {5, 3}),
      of_one("largest norm", [](T x) { return x.norm(3, {0}, false); }, {5, 3}),
      of_one("to real", [](T x) { return at::real(x.to(torch::kComplexFloat)); }, {5, 3}),
      of_one("to complex64", [](T x) { return x.to(torch::kComplexFloat).to(torch::kComplexDouble); }, {5, 3}),
  };
}

void expect_all(int ranks, const std::vector<int>& sizes, std::size_t at_most) {
  const RankOptions options{.deadline = std::chrono::seconds(300), .group = RankOptions::test_group_options("shm")};
  test::run_ranks(ranks, options, [&](Rank& rank) {
    torch::set_num_threads(1);
    torch::manual_seed(1);
    const Mesh mesh(rank.group(), sizes);
    for (const auto& family : {lazy_bits(), writes(), complex_sums()}) {
      for (const auto& each : family) ASSERT_NO_FATAL_FAILURE(test::expect_as_on_one_device(each, mesh, at_most));
    }
  });
}

TEST(GlobalComplex, OnOneRank) { expect_all(1, {1}, 4); }
TEST(GlobalComplex, OnTwoRanks) { expect_all(2, {2}, 16); }
TEST(GlobalComplex, OnFourRanks) { expect_all(4, {4}, 8); }
TEST(GlobalComplex, OnTwoByTwoRanks) { expect_all(4, {2, 2}, 12); }

void on_two(const std::function<void(Rank&, const Mesh&)>& body) {
  const RankOptions options{.group = RankOptions::test_group_options("shm")};
  test::run_ranks(2, options, [&](Rank& rank) { body(rank, Mesh(rank.group())); });
}

/// The bits are where libtorch has them, on parts and wholes.
TEST(GlobalComplex, BitsAreThoseOfOneDevice) {
  on_two([](Rank&, const Mesh& mesh) {
    torch::manual_seed(1);  // the same numbers on all ranks
    const auto plain = complex_numbers({4, 3}).value;
    for (const auto& placement :
         {Placement(Replicate()), Placement(Shard(0)), Placement(Shard(1)), Placement(Partial())}) {
      const auto x = distribute(plain, mesh, {placement}, Source::same_everywhere);
      EXPECT_TRUE(x.conj().is_conj());
      EXPECT_FALSE(x.conj().conj().is_conj());
      EXPECT_FALSE(x.conj().clone().is_conj());
      EXPECT_TRUE(x.conj().t().is_conj());
      EXPECT_TRUE(at::imag(x.conj()).is_neg());
      EXPECT_TRUE(to_local(x.conj()).is_conj()) << "the part is what the tensor says it is";
      EXPECT_TRUE(torch::equal(to_local(x.conj()), to_local(x).conj()));
      EXPECT_TRUE(torch::allclose(full(x.conj()), plain.conj()));
      EXPECT_FALSE(full(x.conj()).is_conj());
      EXPECT_TRUE(torch::allclose(redistribute(x.conj(), {Replicate()}).cpu(), plain.conj()));
      EXPECT_TRUE(torch::allclose(to_global(to_local(x.conj()), mesh, {placement}).cpu(), plain.conj()));
      EXPECT_TRUE(torch::allclose(at::imag(x.conj()).cpu(), -at::imag(plain)));
      EXPECT_TRUE(torch::allclose(full(x.conj().sum()), full(x).conj().sum()));  // in another order
    }
  });
}

/// A complex parameter's gradient is conjugated lazily, and is a sum over the ranks' batches.
TEST(GlobalComplex, GradientsInBucketsAreThoseOfOneDevice) {
  struct Net : torch::nn::Module {
    Net() {
      weight = register_parameter("weight", torch::complex(torch::ones({3, 2}), torch::arange(6.0).view({3, 2})));
      bias = register_parameter("bias", torch::complex(torch::zeros({2}), torch::ones({2})));
    }
    torch::Tensor loss(const torch::Tensor& x) { return (x.mm(weight.conj()) + bias).abs().square().sum(); }
    torch::Tensor weight, bias;
  };
  on_two([](Rank&, const Mesh& mesh) {
    const auto batch = torch::complex(torch::arange(12.0).view({4, 3}), torch::ones({4, 3}));
    Net alone;
    alone.loss(batch).backward();
    for (const Placement& of_weight : {Placement(Replicate()), Placement(Shard(0))}) {
      auto net = std::make_shared<Net>();
      distribute_module(*net, mesh, {{"weight", {of_weight}}});
      for (int step = 0; step < 2; ++step) {
        net->zero_grad(/*set_to_none=*/true);
        net->loss(distribute(batch, mesh, {Shard(0)}, Source::same_everywhere)).backward();
        EXPECT_EQ(placements_of(net->weight.grad()), Placements{of_weight});
        EXPECT_TRUE(torch::allclose(full(net->weight.grad()), alone.weight.grad())) << full(net->weight.grad());
        EXPECT_TRUE(torch::allclose(full(net->bias.grad()), alone.bias.grad())) << full(net->bias.grad());
      }
    }
  });
}

}  // namespace
}  // namespace lockstep
