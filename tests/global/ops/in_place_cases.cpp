// Writing in place and through views, into tensors given as `out`, and to lists of tensors at once.
#include "op_case.h"

#include <torch/torch.h>

namespace lockstep::test {
namespace {

using Write = void (*)(at::Tensor& x, const at::Tensor& y);

/// y is written into a copy of x, so that both have gradients.
OpCase writes(std::string name, Input x, Input y, Write write) {
  return {.name = std::move(name), .inputs = {std::move(x), std::move(y)}, .run = [write](const Tensors& inputs) {
            auto copy = inputs[0] * 1;
            write(copy, inputs[1]);
            return Tensors{copy};
          }};
}

/// The same into x itself, without gradients.
OpCase writes_plainly(std::string name, Input x, Input y, Write write) {
  return {.name = std::move(name),
          .inputs = {std::move(x), std::move(y)},
          .run =
              [write](const Tensors& inputs) {
                auto self = inputs[0].clone();
                write(self, inputs[1]);
                return Tensors{self};
              },
          .differentiable = false};
}

}  // namespace

std::vector<OpCase> in_place_cases() {
  return {
      writes("add_", any({5, 3}), any({5, 3}), [](at::Tensor& x, const at::Tensor& y) { x.add_(y, 2); }),
      writes("mul_ by a row", any({5, 3}), any({3}), [](at::Tensor& x, const at::Tensor& y) { x.mul_(y); }),
      writes("copy_", any({5, 3}), any({3}), [](at::Tensor& x, const at::Tensor& y) { x.copy_(y); }),
      writes("relu_ of a sum", any({5, 3}), any({5, 3}), [](at::Tensor& x, const at::Tensor& y) { x.add_(y).relu_(); }),
      writes("zero_", any({5, 3}), any({5, 3}), [](at::Tensor& x, const at::Tensor& y) { x.zero_().add_(y); }),
      writes_plainly("fill_", any({5, 3}), any({1}), [](at::Tensor& x, const at::Tensor&) { x.fill_(2.5); }),
      writes_plainly("add_ of a number", any({}), any({1}), [](at::Tensor& x, const at::Tensor&) { x.add_(2.5); }),
      writes_plainly("addcdiv_", any({5, 3}), positive({5, 3}),
                     [](at::Tensor& x, const at::Tensor& y) { x.addcdiv_(y, y + 1, -0.5); }),
      writes_plainly("addmm_", any({5, 3}), any({3, 3}),
                     [](at::Tensor& x, const at::Tensor& y) { x.addmm_(x.clone(), y, 0.5, 2); }),
      writes_plainly("masked_fill_", any({5, 3}), mask({5, 1}),
                     [](at::Tensor& x, const at::Tensor& y) { x.masked_fill_(y, 0.25); }),
      writes("masked_scatter_", any({5, 3}), any({15}),
             [](at::Tensor& x, const at::Tensor& y) { x.masked_scatter_(x.detach() > 0.2, y); }),
      writes_plainly("index_add_", any({5, 3}), any({2, 3}),
                     [](at::Tensor& x, const at::Tensor& y) {
                       x.index_add_(0, torch::arange(2, torch::TensorOptions(torch::kLong).device(x.device())), y);
                     }),
      writes("add_ to fewer rows than ranks", any({2, 3}), any({2, 3}),
             [](at::Tensor& x, const at::Tensor& y) { x.add_(y, 2); }),
      writes("mul_ of one row", any({1, 3}), any({3}), [](at::Tensor& x, const at::Tensor& y) { x.mul_(y).relu_(); }),
      writes("copy_ into fewer rows than ranks", any({2, 1}), any({1}),
             [](at::Tensor& x, const at::Tensor& y) { x.copy_(y); }),
      writes("add_ to nothing", any({0, 3}), any({3}), [](at::Tensor& x, const at::Tensor& y) { x.add_(y).mul_(2); }),
      writes_plainly("addmm_ to fewer rows than ranks", any({2, 3}), any({3, 3}),
                     [](at::Tensor& x, const at::Tensor& y) { x.addmm_(x.clone(), y, 0.5, 2); }),
      writes_plainly(
          "addcmul_ to fewer rows than ranks", any({2, 1}), any({2, 1}),
          [](at::Tensor& x, const at::Tensor& y) { x.addcmul_(y, y, 0.5).lerp_(y, 0.25).sqrt_().nan_to_num_(); }),
      writes_plainly("masked_fill_ of fewer rows than ranks", any({2, 3}), mask({2, 1}),
                     [](at::Tensor& x, const at::Tensor& y) { x.masked_fill_(y, 0.25).clamp_(-0.25, 0.25); }),
      writes_plainly("index_add_ to fewer rows than ranks", any({2, 3}), any({2, 3}),
                     [](at::Tensor& x, const at::Tensor& y) {
                       x.index_add_(0, torch::arange(2, torch::TensorOptions(torch::kLong).device(x.device())), y);
                     }),
      writes_plainly("index_put_ into fewer rows than ranks", any({2, 3}), any({3}),
                     [](at::Tensor& x, const at::Tensor& y) {
                       x.index_put_({torch::ones({1}, torch::TensorOptions(torch::kLong).device(x.device()))}, y);
                     }),
      writes_plainly("scatter_ into fewer rows than ranks", any({2, 3}), index({2, 3}, 3),
                     [](at::Tensor& x, const at::Tensor& y) { x.scatter_(1, y, 0.5); }),
      writes_plainly("tril_, cumsum_ of fewer rows than ranks", any({2, 3}), any({1}),
                     [](at::Tensor& x, const at::Tensor&) { x.tril_().cumsum_(0); }),
      writes_plainly("t_", any({3, 3}), any({3}), [](at::Tensor& x, const at::Tensor& y) { x.t_().add_(y); }),
      writes_plainly("squeeze_ of two rows", any({2, 1, 3}), any({3}),
                     [](at::Tensor& x, const at::Tensor& y) { x.squeeze_().add_(y); }),
      writes_plainly("unsqueeze_", any({5}), any({1}),
                     [](at::Tensor& x, const at::Tensor& y) { x.unsqueeze_(1).add_(y); }),
      writes_plainly("add.out", any({5, 3}), any({5, 3}),
                     [](at::Tensor& x, const at::Tensor& y) { torch::add_out(x, y, y.clone()); }),
      writes_plainly("mm.out of another size", any({1}), any({3, 4}),
                     [](at::Tensor& x, const at::Tensor& y) {
                       auto result = torch::empty({0}, x.options());
                       torch::mm_out(result, y, y.t());
                       x.copy_(result.sum());
                     }),
      writes_plainly("cat.out", any({10, 3}), any({5, 3}),
                     [](at::Tensor& x, const at::Tensor& y) {
                       torch::cat_out(x, {y, y});
                     }),
  };
}

std::vector<OpCase> foreach_cases() {
  const auto of_two = [](std::string name, std::function<void(Tensors&, const Tensors&)> run) {
    return OpCase{.name = std::move(name),
                  .inputs = {any({5, 3}), any({2})},
                  .run =
                      [run](const Tensors& x) {
                        Tensors own{x[0].clone(), x[1].clone()};
                        run(own, x);
                        return own;
                      },
                  .differentiable = false};
  };
  return {
      of_two("_foreach_add_", [](Tensors& own, const Tensors& x) { torch::_foreach_add_(own, x, 0.5); }),
      of_two("_foreach_mul_", [](Tensors& own, const Tensors&) { torch::_foreach_mul_(own, 0.5); }),
      of_two("_foreach_mul_ by numbers",
             [](Tensors& own, const Tensors&) {
               torch::_foreach_mul_(own, std::vector<at::Scalar>{0.5, 2});
             }),
      of_two("_foreach_addcdiv_",
             [](Tensors& own, const Tensors& x) { torch::_foreach_addcdiv_(own, x, torch::_foreach_exp(x), 0.5); }),
      of_two("_foreach_addcmul_",
             [](Tensors& own, const Tensors& x) {
               torch::_foreach_addcmul_(own, x, x, std::vector<at::Scalar>{0.5, 2});
             }),
      of_two("_foreach_sqrt",
             [](Tensors& own, const Tensors& x) { own = torch::_foreach_sqrt(torch::_foreach_abs(x)); }),
      of_two("_foreach_norm", [](Tensors& own, const Tensors& x) { own = torch::_foreach_norm(x); }),
      of_two("_foreach_maximum",
             [](Tensors& own, const Tensors& x) { own = torch::_foreach_maximum(x, torch::_foreach_neg(x)); }),
      of_two("_foreach_zero_", [](Tensors& own, const Tensors&) { torch::_foreach_zero_(own); }),
  };
}

}  // namespace lockstep::test
