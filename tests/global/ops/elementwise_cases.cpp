// Elementwise operators with broadcasting, and products.
#include "op_case.h"

#include <torch/torch.h>

namespace lockstep::test {
namespace {

using Unary = at::Tensor (*)(const at::Tensor&);
using Binary = at::Tensor (*)(const at::Tensor&, const at::Tensor&);

OpCase unary(std::string name, Unary function, Input input = any({5, 3})) {
  return {.name = std::move(name), .inputs = {std::move(input)}, .run = [function](const Tensors& x) {
            return Tensors{function(x[0])};
          }};
}

OpCase binary(std::string name, Binary function, Input a, Input b) {
  return {.name = std::move(name), .inputs = {std::move(a), std::move(b)}, .run = [function](const Tensors& x) {
            return Tensors{function(x[0], x[1])};
          }};
}

OpCase plain(OpCase op) {
  op.differentiable = false;
  return op;
}

}  // namespace

std::vector<OpCase> elementwise_cases() {
  std::vector<OpCase> cases{
      unary("relu", torch::relu),
      unary("exp of one row", torch::exp, any({1, 4})),
      unary("tanh of fewer rows than ranks", torch::tanh, any({2})),
      unary("sigmoid of a number", torch::sigmoid, any({})),
      unary("abs of nothing", torch::abs, any({0, 3})),
      unary("log", torch::log, positive({4, 2})),
      unary("sqrt", torch::sqrt, positive({3})),
      unary("gelu", [](const at::Tensor& x) { return torch::gelu(x); }),
      unary("silu", torch::silu),
      unary("hardtanh", [](const at::Tensor& x) { return torch::hardtanh(x); }),
      unary("hardswish", torch::hardswish),
      unary("leaky_relu", [](const at::Tensor& x) { return torch::leaky_relu(x, 0.1); }),
      unary("softplus", [](const at::Tensor& x) { return torch::softplus(x); }),
      unary("elu", [](const at::Tensor& x) { return torch::elu(x); }),
      unary("log_sigmoid", torch::log_sigmoid),
      unary("clamp", [](const at::Tensor& x) { return torch::clamp(x, -0.5, 0.5); }),
      unary("pow", [](const at::Tensor& x) { return torch::pow(x, 3); }),
      unary("number to the power", [](const at::Tensor& x) { return torch::pow(2.0, x); }),
      unary("neg", torch::neg),
      unary("plus a number", [](const at::Tensor& x) { return x + 3; }),
      unary("a number minus", [](const at::Tensor& x) { return 3 - x; }),
      unary("times a number", [](const at::Tensor& x) { return x * 3; }),
      unary("over a number", [](const at::Tensor& x) { return x / 4; }),
      unary("a number over", [](const at::Tensor& x) { return 4 / x; }),
      unary("clone", [](const at::Tensor& x) { return x.clone(); }),
      unary("to double and back", [](const at::Tensor& x) { return x.to(torch::kDouble).to(torch::kFloat); }),
      unary("nan_to_num", [](const at::Tensor& x) { return torch::nan_to_num(x); }),
      unary("square", torch::square),
      unary("sum of itself twice", [](const at::Tensor& x) { return x + x; }),
      unary("product with itself", [](const at::Tensor& x) { return x * x; }),
      plain(unary("to int", [](const at::Tensor& x) { return x.to(torch::kLong); })),
      plain(unary("isnan", torch::isnan)),
      plain(unary("isfinite", torch::isfinite)),
      plain(unary("greater than a number", [](const at::Tensor& x) { return x > 0.3; })),
      plain(unary("sign", torch::sign)),
      plain(unary("zeros_like", [](const at::Tensor& x) { return torch::zeros_like(x); })),
      plain(unary("full_like", [](const at::Tensor& x) { return torch::full_like(x, 2.5); })),
      plain(unary("new_zeros",
                  [](const at::Tensor& x) {
                    return x.new_zeros({3, 2});
                  })),
      plain(unary("not", torch::logical_not, mask({5, 2}))),
      plain(binary("and", torch::logical_and, mask({5, 2}), mask({2}))),
      plain(binary("bitwise or", torch::bitwise_or, index({5, 2}, 8), index({5, 2}, 8))),
      plain(binary("integers", torch::mul, index({5, 2}, 8), index({2}, 8))),
      plain(binary(
          "equal as a whole",
          [](const at::Tensor& a, const at::Tensor& b) {
            // Of itself, of another with the same values, and of one that differs in the last place only.
            auto other = a.clone();
            const bool same = torch::equal(a, a) && torch::equal(a, other);
            other.view({-1}).slice(0, other.numel() - 1).add_(1);
            return b + (same && !torch::equal(a, other) && !torch::equal(a, b) ? 1 : 0);
          },
          any({5, 3}), any({1}))),
      plain(binary("equal", torch::eq, index({5, 2}, 3), index({5, 2}, 3))),
      plain(binary("floor_divide", torch::floor_divide, any({5, 2}), positive({2}))),
      binary(
          "add", [](const at::Tensor& a, const at::Tensor& b) { return torch::add(a, b, 2); }, any({5, 3}),
          any({5, 3})),
      binary(
          "add a row", [](const at::Tensor& a, const at::Tensor& b) { return a + b; }, any({5, 3}), any({3})),
      binary(
          "sub a column", [](const at::Tensor& a, const at::Tensor& b) { return a - b; }, any({5, 3}), any({5, 1})),
      binary(
          "add outer", [](const at::Tensor& a, const at::Tensor& b) { return a + b; }, any({4, 1}), any({1, 3})),
      binary(
          "add a number", [](const at::Tensor& a, const at::Tensor& b) { return a + b; }, any({3, 2}), any({})),
      binary("mul", torch::mul, any({5, 3}), any({5, 3})),
      binary("mul a row", torch::mul, any({2, 3}), any({3})),
      binary(
          "div", [](const at::Tensor& a, const at::Tensor& b) { return a / b; }, any({5, 3}), positive({3})),
      binary("maximum", torch::maximum, any({5, 3}), any({5, 1})),
      binary("atan2", torch::atan2, any({5}), positive({5})),
      binary(
          "lerp", [](const at::Tensor& a, const at::Tensor& b) { return torch::lerp(a, b, 0.25); }, any({5, 3}),
          any({5, 3})),
  };
  for (const std::int64_t slopes : {1, 3}) {
    cases.push_back({.name = "prelu", .inputs = {any({5, 3, 2}), any({slopes})}, .run = [](const Tensors& x) {
                       return Tensors{torch::prelu(x[0], x[1])};
                     }});
  }
  cases.push_back({.name = "where", .inputs = {mask({5, 1}), any({5, 3}), any({3})}, .run = [](const Tensors& x) {
                     return Tensors{torch::where(x[0], x[1], x[2])};
                   }});
  cases.push_back({.name = "masked_fill", .inputs = {any({5, 3}), mask({3})}, .run = [](const Tensors& x) {
                     return Tensors{x[0].masked_fill(x[1], -1e3)};
                   }});
  cases.push_back({.name = "addcmul", .inputs = {any({5, 3}), any({5, 3}), any({3})}, .run = [](const Tensors& x) {
                     return Tensors{torch::addcmul(x[0], x[1], x[2], 0.5)};
                   }});
  cases.push_back({.name = "addcdiv",
                   .inputs = {any({5, 3}), any({5, 3}), positive({5, 1})},
                   .run = [](const Tensors& x) { return Tensors{torch::addcdiv(x[0], x[1], x[2], 0.5)}; }});
  return cases;
}

std::vector<OpCase> product_cases() {
  std::vector<OpCase> cases{
      binary("mm", torch::mm, any({5, 4}), any({4, 3})),
      binary("mm of small ones", torch::mm, any({1, 2}), any({2, 1})),
      binary("bmm", torch::bmm, any({3, 2, 5}), any({3, 5, 4})),
      binary("matmul with a batch", torch::matmul, any({2, 3, 4}), any({4, 5})),
      binary("matmul of batches that broadcast", torch::matmul, any({2, 1, 3, 4}), any({3, 4, 2})),
      binary("mv", torch::mv, any({5, 3}), any({3})),
      binary("dot", torch::dot, any({5}), any({5})),
      binary("outer", torch::outer, any({5}), any({3})),
      binary(
          "linear without bias", [](const at::Tensor& a, const at::Tensor& b) { return torch::linear(a, b); },
          any({2, 3, 4}), any({5, 4})),
  };
  cases.push_back({.name = "addmm", .inputs = {any({3}), any({5, 4}), any({4, 3})}, .run = [](const Tensors& x) {
                     return Tensors{torch::addmm(x[0], x[1], x[2], 0.5, 2)};
                   }});
  cases.push_back({.name = "baddbmm",
                   .inputs = {any({3, 1, 2}), any({3, 5, 4}), any({3, 4, 2})},
                   .run = [](const Tensors& x) { return Tensors{torch::baddbmm(x[0], x[1], x[2], 0.5, 2)}; }});
  cases.push_back({.name = "addmv", .inputs = {any({5}), any({5, 4}), any({4})}, .run = [](const Tensors& x) {
                     return Tensors{torch::addmv(x[0], x[1], x[2], 0.5, 2)};
                   }});
  cases.push_back({.name = "linear", .inputs = {any({2, 3, 4}), any({5, 4}), any({5})}, .run = [](const Tensors& x) {
                     return Tensors{torch::linear(x[0], x[1], x[2])};
                   }});
  cases.push_back({.name = "einsum", .inputs = {any({2, 3, 4}), any({2, 5, 4})}, .run = [](const Tensors& x) {
                     return Tensors{torch::einsum("bqd,bkd->bqk", {x[0], x[1]})};
                   }});
  return cases;
}

}  // namespace lockstep::test
