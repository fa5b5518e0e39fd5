// Writing through views, also those of a divided dimension, whose numbers were fetched: the base and its other views
// see it, and gradients pass it.
#include "op_case.h"

#include <torch/torch.h>

namespace lockstep::test {
namespace {

using torch::indexing::Slice;
using Write = void (*)(at::Tensor& x, const at::Tensor& y);

/// y is written into a copy of x, so that both have gradients.
OpCase through(std::string name, Input x, Input y, Write write) {
  return {
      .name = "write through " + name, .inputs = {std::move(x), std::move(y)}, .run = [write](const Tensors& inputs) {
        auto copy = inputs[0] * 1;
        write(copy, inputs[1]);
        return Tensors{copy};
      }};
}

OpCase plainly(std::string name, Input x, Input y, Write write) {
  auto one = through(std::move(name), std::move(x), std::move(y), write);
  one.differentiable = false;
  return one;
}

OpCase gathered(OpCase one) {
  one.has_rule = false;
  return one;
}

at::Tensor rows(const at::Tensor& like, std::vector<std::int64_t> numbers) {
  return torch::tensor(numbers, torch::TensorOptions(torch::kLong)).to(like.device());
}

std::vector<OpCase> one_view() {
  return {
      through("a row", any({5, 3}), any({3}), [](at::Tensor& x, const at::Tensor& y) { x.select(0, 1).add_(y); }),
      through("the last column", any({5, 3}), any({5}),
              [](at::Tensor& x, const at::Tensor& y) { x.select(1, 2).mul_(y); }),
      through("a row, overwritten", any({5, 3}), any({3}),
              [](at::Tensor& x, const at::Tensor& y) { x.select(0, 4).copy_(y); }),
      through("rows", any({5, 3}), any({2, 3}), [](at::Tensor& x, const at::Tensor& y) { x.narrow(0, 1, 2).sub_(y); }),
      through("every other row", any({5, 3}), any({3, 3}),
              [](at::Tensor& x, const at::Tensor& y) { x.slice(0, 0, 5, 2).mul_(y).relu_(); }),
      through("the diagonal", any({5, 3}), any({3}), [](at::Tensor& x, const at::Tensor& y) { x.diagonal().copy_(y); }),
      through("a block", any({4, 4}), any({2, 2}),
              [](at::Tensor& x, const at::Tensor& y) { x.narrow(0, 1, 2).narrow(1, 2, 2).add_(y); }),
      through("merged dimensions", any({3, 4}), any({12}),
              [](at::Tensor& x, const at::Tensor& y) { x.view(12).mul_(y); }),
      through("split dimensions", any({6, 2}), any({3, 2}),
              [](at::Tensor& x, const at::Tensor& y) {
                x.view({2, 3, 2}).select(0, 1).add_(y);
              }),
      through("strides", any({4, 4}), any({2, 2}),
              [](at::Tensor& x, const at::Tensor& y) {
                x.as_strided({2, 2}, {8, 2}, 1).add_(y);
              }),
      through("windows", any({6, 2}), any({3, 2, 2}),
              [](at::Tensor& x, const at::Tensor& y) { x.unfold(0, 2, 2).mul_(y); }),
      plainly("a part of several", any({5, 3}), any({2, 3}),
              [](at::Tensor& x, const at::Tensor& y) {
                x.split_with_sizes({2, 2, 1})[1].copy_(y);
              }),
      plainly("the transposed row", any({5, 3}), any({5}),
              [](at::Tensor& x, const at::Tensor& y) { x.t().select(0, 1).copy_(y); }),
  };
}

std::vector<OpCase> chains() {
  return {
      through("a row's part", any({5, 4}), any({2}),
              [](at::Tensor& x, const at::Tensor& y) { x.select(0, 3).narrow(0, 1, 2).add_(y); }),
      through("a row, twice", any({5, 3}), any({3}),
              [](at::Tensor& x, const at::Tensor& y) {
                auto row = x.select(0, 1);
                row.mul_(y);
                row.add_(y);
              }),
      through("a row and its square", any({5, 4}), any({2}),
              [](at::Tensor& x, const at::Tensor& y) {
                const auto row = x.select(0, 1);
                row.view({2, 2}).t().select(0, 1).mul_(y);
                row.add_(1);
              }),
      through("a row, then the base, then the row", any({5, 3}), any({3}),
              [](at::Tensor& x, const at::Tensor& y) {
                const auto row = x.select(0, 1);
                row.mul_(y);
                x.mul_(2);
                row.add_(y);
              }),
      through("two views that overlap", any({4, 4}), any({4}),
              [](at::Tensor& x, const at::Tensor& y) {
                const auto row = x.select(0, 1);
                const auto column = x.select(1, 2);
                row.mul_(y);
                column.add_(row.clone());
                row.sub_(column.clone());
              }),
      through("rows of an expanded row", any({3, 4}), any({2}),
              [](at::Tensor& x, const at::Tensor& y) {
                x.unsqueeze(0).expand({2, 3, 4}).narrow(2, 1, 2).select(0, 0).select(0, 1).add_(y);
              }),
      plainly("what was transposed in place", any({4, 4}), any({2}),
              [](at::Tensor& x, const at::Tensor& y) {
                auto block = x.narrow(0, 1, 2);
                block.t_().select(0, 3).copy_(y);
                block.unsqueeze_(1).add_(1);
              }),
      plainly("a view of what was transposed in place later", any({4, 4}), any({4}),
              [](at::Tensor& x, const at::Tensor& y) {
                const auto row = x.select(0, 1);
                x.t_();
                row.copy_(y);
                x.select(0, 2).add_(1);
              }),
  };
}

std::vector<OpCase> ways_to_write() {
  return {
      plainly("out =", any({5, 3}), any({3}),
              [](at::Tensor& x, const at::Tensor& y) {
                auto row = x.select(0, 1);
                torch::mul_out(row, row, y);
              }),
      plainly("zero_ and fill_", any({5, 3}), any({1}),
              [](at::Tensor& x, const at::Tensor&) {
                x.select(0, 1).zero_();
                x.narrow(0, 3, 2).fill_(2.5);
              }),
      plainly("masked_fill_", any({5, 3}), mask({2, 1}),
              [](at::Tensor& x, const at::Tensor& y) { x.narrow(0, 2, 2).masked_fill_(y, 0.25); }),
      plainly("index_put_", any({5, 3}), any({2, 3}),
              [](at::Tensor& x, const at::Tensor& y) {
                x.narrow(0, 1, 4).index_put_({rows(x, {3, 0})}, y, true);
              }),
      plainly("_foreach_add_", any({5, 3}), any({3}),
              [](at::Tensor& x, const at::Tensor& y) {
                torch::_foreach_add_({x.select(0, 0), x.select(0, 4)}, std::vector<at::Tensor>{y, y}, 2);
              }),
      plainly("x[1] = y", any({5, 3}), any({3}), [](at::Tensor& x, const at::Tensor& y) { x.index_put_({1}, y); }),
      plainly("x[1:4:2, 2] = y", any({5, 3}), any({2}),
              [](at::Tensor& x, const at::Tensor& y) {
                x.index_put_({Slice(1, 4, 2), 2}, y);
              }),
      gathered(through("fill_diagonal_", any({5, 3}), any({1}),
                       [](at::Tensor& x, const at::Tensor&) { x.fill_diagonal_(0.5); })),
      {.name = "diagonal_scatter",
       .inputs = {any({4, 4}), any({3})},
       .run = [](const Tensors& in) { return Tensors{torch::diagonal_scatter(in[0], in[1], 1)}; }},
      {.name = "select_scatter",
       .inputs = {any({4, 3}), any({3})},
       .run = [](const Tensors& in) { return Tensors{torch::select_scatter(in[0], in[1], 0, 2)}; }},
      {.name = "slice_scatter",
       .inputs = {any({5, 3}), any({2, 3})},
       .run = [](const Tensors& in) { return Tensors{torch::slice_scatter(in[0], in[1], 0, 1, 5, 2)}; }},
      {.name = "as_strided_scatter",
       .inputs = {any({4, 4}), any({2, 2})},
       .run =
           [](const Tensors& in) {
             return Tensors{torch::as_strided_scatter(in[0], in[1], {2, 2}, {8, 1}, 1)};
           },
       .differentiable = false},
      {.name = "conv_tbc",
       .inputs = {any({5, 2, 3}), any({3, 3, 4}), any({4})},
       .run = [](const Tensors& in) { return Tensors{torch::conv_tbc(in[0], in[1], in[2], 1)}; }},
  };
}

}  // namespace

std::vector<OpCase> view_write_cases() {
  std::vector<OpCase> all = one_view();
  for (auto* more : {chains, ways_to_write}) {
    for (auto& each : more()) all.push_back(std::move(each));
  }
  return all;
}

}  // namespace lockstep::test
