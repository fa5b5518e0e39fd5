// Shapes, orders and parts of tensors; rows by number.
#include "op_case.h"

#include <torch/torch.h>

namespace lockstep::test {
namespace {

using torch::indexing::None;
using torch::indexing::Slice;

OpCase view_of(std::string name, std::vector<std::int64_t> sizes, std::function<Tensors(const at::Tensor&)> function) {
  return {.name = std::move(name), .inputs = {any(std::move(sizes))}, .run = [function](const Tensors& x) {
            return function(x[0]);
          }};
}

OpCase with_index(std::string name, Input self, Input numbers,
                  std::function<at::Tensor(const at::Tensor&, const at::Tensor&)> function) {
  return {.name = std::move(name),
          .inputs = {std::move(self), std::move(numbers)},
          .run = [function](const Tensors& x) { return Tensors{function(x[0], x[1])}; }};
}

}  // namespace

std::vector<OpCase> view_cases() {
  std::vector<OpCase> cases{
      view_of("view as one dimension", {4, 6}, [](const at::Tensor& x) { return Tensors{x.view(-1)}; }),
      view_of("view of uneven rows", {5, 6}, [](const at::Tensor& x) { return Tensors{x.view(-1)}; }),
      view_of("view in groups", {4, 6},
              [](const at::Tensor& x) {
                return Tensors{x.view({4, 2, 3})};
              }),
      view_of("view that splits rows", {8, 3},
              [](const at::Tensor& x) {
                return Tensors{x.view({4, 2, 3})};
              }),
      view_of("view that moves a border", {4, 6},
              [](const at::Tensor& x) {
                return Tensors{x.view({6, 4})};
              }),
      view_of("reshape of a transposed one", {4, 6},
              [](const at::Tensor& x) {
                return Tensors{x.t().reshape({4, 6})};
              }),
      view_of("flatten", {2, 3, 4}, [](const at::Tensor& x) { return Tensors{x.flatten(1)}; }),
      view_of("squeeze", {5, 1, 3}, [](const at::Tensor& x) { return Tensors{x.squeeze()}; }),
      view_of("squeeze of two rows", {2, 3},
              [](const at::Tensor& x) {
                return Tensors{x.squeeze(), x.squeeze(0)};
              }),
      view_of("unsqueeze", {5, 3}, [](const at::Tensor& x) { return Tensors{x.unsqueeze(1)}; }),
      view_of("transpose", {5, 3, 2}, [](const at::Tensor& x) { return Tensors{x.transpose(0, -1)}; }),
      view_of("t", {5, 3}, [](const at::Tensor& x) { return Tensors{x.t()}; }),
      view_of("permute", {5, 3, 2},
              [](const at::Tensor& x) {
                return Tensors{x.permute({2, 0, 1})};
              }),
      view_of("contiguous", {5, 3}, [](const at::Tensor& x) { return Tensors{x.t().contiguous()}; }),
      view_of("expand", {5, 1},
              [](const at::Tensor& x) {
                return Tensors{x.expand({2, 5, 3})};
              }),
      view_of("select", {5, 3},
              [](const at::Tensor& x) {
                return Tensors{x.select(0, 2), x[4], x.select(1, -1)};
              }),
      view_of("slice", {7, 3},
              [](const at::Tensor& x) {
                return Tensors{x.slice(0, 1, 6, 2), x.narrow(1, 1, 2)};
              }),
      view_of("split", {5, 4}, [](const at::Tensor& x) { return Tensors(x.split(2)); }),
      view_of("split with sizes", {5, 4},
              [](const at::Tensor& x) {
                return x.split_with_sizes({1, 3}, 1);
              }),
      view_of("chunk", {5, 6}, [](const at::Tensor& x) { return x.chunk(3, 1); }),
      view_of("unbind", {3, 5}, [](const at::Tensor& x) { return x.unbind(1); }),
      view_of("flip", {5, 3}, [](const at::Tensor& x) { return Tensors{x.flip({0})}; }),
      view_of("roll", {5, 3},
              [](const at::Tensor& x) {
                return Tensors{x.roll(2, 0), x.roll(1)};
              }),
      view_of("repeat", {5, 3},
              [](const at::Tensor& x) {
                return Tensors{x.repeat({1, 2}), x.repeat({2, 1, 1})};
              }),
      view_of("tril", {5, 6}, [](const at::Tensor& x) { return Tensors{x.tril(1)}; }),
      view_of("triu of many", {2, 5, 3}, [](const at::Tensor& x) { return Tensors{x.triu(-1)}; }),
      view_of("diagonal", {3, 5, 4}, [](const at::Tensor& x) { return Tensors{x.diagonal(0, 1, 2)}; }),
      view_of("unfold", {5, 4}, [](const at::Tensor& x) { return Tensors{x.unfold(1, 2, 1)}; }),
      view_of("as_strided as a column", {5, 3},
              [](const at::Tensor& x) { return Tensors{x.contiguous().as_strided({5}, {3}, 1)}; }),
      view_of("padded", {5, 3},
              [](const at::Tensor& x) {
                return Tensors{torch::constant_pad_nd(x, {1, 2}, 0.5)};
              }),
  };
  for (const std::int64_t dim : {0, 1}) {
    cases.push_back({.name = "cat", .inputs = {any({5, 3}), any({5, 3})}, .run = [dim](const Tensors& x) {
                       return Tensors{torch::cat({x[0], x[1]}, dim)};
                     }});
    cases.push_back({.name = "stack", .inputs = {any({5, 3}), any({5, 3})}, .run = [dim](const Tensors& x) {
                       return Tensors{torch::stack({x[0], x[1]}, dim)};
                     }});
  }
  return cases;
}

std::vector<OpCase> indexing_cases() {
  std::vector<OpCase> cases{
      with_index("index_select", any({5, 3}), index({4}, 5),
                 [](const at::Tensor& x, const at::Tensor& i) { return x.index_select(0, i); }),
      with_index("index_select of columns", any({5, 4}), index({2}, 4),
                 [](const at::Tensor& x, const at::Tensor& i) { return x.index_select(-1, i); }),
      with_index("index", any({5, 3}), index({4}, 5),
                 [](const at::Tensor& x, const at::Tensor& i) { return x.index({i}); }),
      with_index("index in the middle", any({2, 5, 3}), index({4, 2}, 5),
                 [](const at::Tensor& x, const at::Tensor& i) {
                   return x.index({Slice(), i});
                 }),
      with_index("index twice", any({5, 3, 5}), index({4}, 5),
                 [](const at::Tensor& x, const at::Tensor& i) {
                   return x.index({i, Slice(), i});
                 }),
      with_index("gather", any({5, 3}), index({5, 3}, 3),
                 [](const at::Tensor& x, const at::Tensor& i) { return x.gather(1, i); }),
      with_index("gather of fewer", any({5, 3}), index({2, 2}, 5),
                 [](const at::Tensor& x, const at::Tensor& i) { return x.gather(0, i); }),
      with_index("take_along_dim", any({5, 3}), index({5, 2}, 3),
                 [](const at::Tensor& x, const at::Tensor& i) { return torch::take_along_dim(x, i, 1); }),
      with_index("scatter of a number", any({5, 3}), index({5, 2}, 3),
                 [](const at::Tensor& x, const at::Tensor& i) { return x.scatter(1, i, 2.5); }),
      with_index("index_fill", any({5, 3}), index({2}, 5),
                 [](const at::Tensor& x, const at::Tensor& i) { return x.index_fill(0, i, 2.5); }),
  };
  cases.push_back({.name = "scatter",
                   .inputs = {any({5, 4}), index({5, 1}, 4), any({5, 1})},
                   .run = [](const Tensors& x) { return Tensors{x[0].scatter(1, x[1], x[2])}; }});
  cases.push_back({.name = "scatter_add",
                   .inputs = {any({5, 3}), index({5, 4}, 3), any({5, 4})},
                   .run = [](const Tensors& x) { return Tensors{x[0].scatter_add(1, x[1], x[2])}; }});
  cases.push_back({.name = "index_add",
                   .inputs = {any({5, 3}), index({4}, 5), any({4, 3})},
                   .run = [](const Tensors& x) { return Tensors{x[0].index_add(0, x[1], x[2])}; }});
  cases.push_back({.name = "index_copy",
                   .inputs = {any({5, 3}), index({4}, 5), any({4, 3})},
                   .run = [](const Tensors& x) { return Tensors{x[0].index_copy(0, x[1], x[2])}; }});
  cases.push_back({.name = "index_put",
                   .inputs = {any({5, 3}), index({4}, 5), any({4, 3})},
                   .run = [](const Tensors& x) { return Tensors{x[0].index_put({x[1]}, x[2])}; }});
  cases.push_back({.name = "index_put that adds",
                   .inputs = {any({5, 3}), index({7}, 5), any({7, 3})},
                   .run = [](const Tensors& x) { return Tensors{x[0].index_put({x[1]}, x[2], true)}; }});
  cases.push_back({.name = "masked_select", .inputs = {any({5, 3}), mask({5, 3})}, .run = [](const Tensors& x) {
                     return Tensors{x[0].masked_select(x[1])};
                   }});
  cases.push_back({.name = "masked_select by a row", .inputs = {any({5, 3}), mask({3})}, .run = [](const Tensors& x) {
                     return Tensors{x[0].masked_select(x[1])};
                   }});
  cases.push_back({.name = "masked_select of a column that is repeated",
                   .inputs = {any({3}), mask({5, 3})},
                   .run = [](const Tensors& x) { return Tensors{x[0].masked_select(x[1])}; }});
  cases.push_back({.name = "masked_scatter",
                   .inputs = {any({5, 3}), mask({5, 1}), any({4, 4})},
                   .run = [](const Tensors& x) { return Tensors{x[0].masked_scatter(x[1], x[2])}; }});
  cases.push_back({.name = "index by a mask", .inputs = {any({5, 3}), mask({5})}, .run = [](const Tensors& x) {
                     return Tensors{x[0].index({x[1]})};
                   }});
  cases.push_back({.name = "index by a mask of all dimensions, and by numbers then",
                   .inputs = {any({5, 3}), mask({5, 3}), index({4}, 5)},
                   .run = [](const Tensors& x) {
                     return Tensors{x[0].index({x[1]}), x[0].index({x[2]})};
                   }});
  cases.push_back({.name = "index_put by a mask",
                   .inputs = {any({5, 3}), mask({5}), any({2, 3})},
                   .run = [](const Tensors& x) { return Tensors{x[0].index_put({x[1]}, x[2])}; }});
  cases.push_back({.name = "index_put of one row by a mask",
                   .inputs = {any({5, 3}), mask({5}), any({3})},
                   .run = [](const Tensors& x) { return Tensors{x[0].index_put({x[1]}, x[2])}; }});
  return cases;
}

}  // namespace lockstep::test
