// Reductions, and operators that work along a dimension.
#include "op_case.h"

#include <torch/torch.h>

#include <limits>

namespace lockstep::test {
namespace {

using Dims = at::IntArrayRef;
using Function = std::function<Tensors(const at::Tensor&)>;

OpCase reduction(std::string name, Function function, Input input = any({5, 3, 2})) {
  return {.name = std::move(name), .inputs = {std::move(input)}, .run = [function](const Tensors& x) {
            return function(x[0]);
          }};
}

OpCase without_gradient(OpCase op) {
  op.differentiable = false;
  return op;
}

Tensors pair(std::tuple<at::Tensor, at::Tensor> both) { return {std::get<0>(both), std::get<1>(both)}; }

}  // namespace

std::vector<OpCase> reduction_cases() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return {
      reduction("sum", [](const at::Tensor& x) { return Tensors{x.sum()}; }),
      reduction("sum of dim 0", [](const at::Tensor& x) { return Tensors{x.sum(0)}; }),
      reduction("sum of dims",
                [](const at::Tensor& x) {
                  return Tensors{x.sum(Dims{0, -1}, true)};
                }),
      reduction(
          "sum of a number", [](const at::Tensor& x) { return Tensors{x.sum()}; }, any({})),
      reduction(
          "sum of few rows", [](const at::Tensor& x) { return Tensors{x.sum(1)}; }, any({2, 3})),
      without_gradient(reduction(
          "sum of a mask", [](const at::Tensor& x) { return Tensors{x.sum(0)}; }, mask({5, 3}))),
      reduction("mean", [](const at::Tensor& x) { return Tensors{x.mean()}; }),
      reduction("mean of dim 1", [](const at::Tensor& x) { return Tensors{x.mean(1)}; }),
      reduction("mean of dims",
                [](const at::Tensor& x) {
                  return Tensors{x.mean(Dims{0, 1}, true)};
                }),
      reduction("amax", [](const at::Tensor& x) { return Tensors{x.amax(0)}; }),
      reduction("amin of all",
                [](const at::Tensor& x) {
                  return Tensors{x.amin({0, 1, 2})};
                }),
      reduction("max", [](const at::Tensor& x) { return Tensors{x.max()}; }),
      reduction(
          "max of fewer rows than ranks", [](const at::Tensor& x) { return Tensors{x.max()}; }, any({2})),
      reduction("max of dim 0", [](const at::Tensor& x) { return pair(x.max(0)); }),
      reduction("min of dim 1", [](const at::Tensor& x) { return pair(x.min(1, true)); }),
      reduction("median of dim 1", [](const at::Tensor& x) { return pair(x.median(1)); }),
      reduction("kthvalue", [](const at::Tensor& x) { return pair(x.kthvalue(2, 0)); }),
      reduction("prod", [](const at::Tensor& x) { return Tensors{x.prod(1)}; }),
      reduction("logsumexp", [](const at::Tensor& x) { return Tensors{x.logsumexp(1)}; }),
      reduction("var", [](const at::Tensor& x) { return Tensors{x.var()}; }),
      reduction("var of dim 0", [](const at::Tensor& x) { return Tensors{x.var(Dims{0}, true, true)}; }),
      reduction("var of dims",
                [](const at::Tensor& x) {
                  return Tensors{x.var(Dims{0, 2}, false, false)};
                }),
      reduction("std of dim 1", [](const at::Tensor& x) { return Tensors{x.std(1)}; }),
      reduction("var_mean",
                [](const at::Tensor& x) {
                  return pair(torch::var_mean(x, Dims{0, 1}, true));
                }),
      reduction("norm", [](const at::Tensor& x) { return Tensors{x.norm()}; }),
      reduction("norm of rows", [](const at::Tensor& x) { return Tensors{x.norm(2, 1, true)}; }),
      reduction("norm of order 3",
                [](const at::Tensor& x) {
                  return Tensors{x.norm(3, Dims{0, 2})};
                }),
      reduction("vector norm", [](const at::Tensor& x) { return Tensors{torch::linalg_vector_norm(x)}; }),
      reduction("vector norm of order infinity",
                [=](const at::Tensor& x) { return Tensors{torch::linalg_vector_norm(x, kInfinity)}; }),
      reduction(
          "vector norm of order 1 of fewer rows than ranks",
          [](const at::Tensor& x) { return Tensors{torch::linalg_vector_norm(x, 1, Dims{0})}; }, any({2, 3})),
      without_gradient(reduction(
          "vector norm of order -infinity",
          [=](const at::Tensor& x) { return Tensors{torch::linalg_vector_norm(x, -kInfinity)}; }, any({2}))),
      without_gradient(reduction("vector norm of order 0",
                                 [](const at::Tensor& x) { return Tensors{torch::linalg_vector_norm(x, 0)}; })),
      without_gradient(reduction(
          "any", [](const at::Tensor& x) { return Tensors{x.any()}; }, mask({5, 3}))),
      without_gradient(reduction(
          "all of dim 0", [](const at::Tensor& x) { return Tensors{x.all(0)}; }, mask({2, 3}))),
      without_gradient(reduction("count_nonzero", [](const at::Tensor& x) { return Tensors{x.count_nonzero()}; })),
      without_gradient(reduction("argmax", [](const at::Tensor& x) { return Tensors{x.argmax(1)}; })),
      without_gradient(reduction("argmin of all", [](const at::Tensor& x) { return Tensors{x.argmin()}; })),
      reduction("cumsum", [](const at::Tensor& x) { return Tensors{x.cumsum(0)}; }),
      reduction("cumprod", [](const at::Tensor& x) { return Tensors{x.cumprod(1)}; }),
      without_gradient(reduction("cummax", [](const at::Tensor& x) { return pair(x.cummax(1)); })),
      reduction("sort", [](const at::Tensor& x) { return pair(x.sort(0, true)); }),
      without_gradient(reduction("argsort", [](const at::Tensor& x) { return Tensors{x.argsort(1, false)}; })),
      reduction("topk", [](const at::Tensor& x) { return pair(x.topk(2, 1)); }),
  };
}

}  // namespace lockstep::test
