// Indices that are out of range, at each end of a tensor, and indices of a wrong shape.
#include "attempts.h"

namespace lockstep::test {
namespace {

/// Of a tensor and of indices into it.
const std::vector<std::pair<std::string, Two>>& operators_of_indices() {
  static const std::vector<std::pair<std::string, Two>> operators{
      {"index_select", [](X x, X at) { return x.index_select(0, at); }},
      {"index_select along 1", [](X x, X at) { return x.index_select(1, at); }},
      {"index_fill", [](X x, X at) { return x.index_fill(0, at, 3); }},
      {"index_fill_ along 1", [](X x, X at) { return x.clone().index_fill_(1, at, 3); }},
      {"index_add", [](X x, X at) { return x.index_add(0, at, x); }},
      {"index_add along 1", [](X x, X at) { return x.index_add(1, at, x.t()); }},
      {"index_copy", [](X x, X at) { return x.index_copy(0, at, x); }},
      {"index", [](X x, X at) { return x.index({at}); }},
      {"index columns",
       [](X x, X at) {
         return x.index({at::indexing::Slice(), at});
       }},
      {"index both",
       [](X x, X at) {
         return x.index({at, at});
       }},
      {"index_put_", [](X x, X at) { return x.clone().index_put_({at}, 3); }},
      {"index_put_ of itself", [](X x, X at) { return x.index_put_({at}, x.select(0, 0).clone()); }},
      {"accumulate", [](X x, X at) { return x.index_put({at}, x.new_ones({1}), /*accumulate=*/true); }},
      {"take", [](X x, X at) { return x.take(at * 3); }},
      {"put_", [](X x, X at) { return x.clone().put_(at * 3, at.to(x.scalar_type())); }},
      {"embedding", [](X x, X at) { return at::embedding(x, at); }},
      {"embedding with padding", [](X x, X at) { return at::embedding(x, at, 1); }},
      {"embedding_bag", [](X x, X at) { return std::get<0>(at::embedding_bag(x, at, at.new_zeros({1}))); }},
      {"embedding backward",
       [](X x, X at) {
         return at::embedding_dense_backward(x.new_ones({at.size(0), 2}), at, 4, 0, false);
       }},
      {"one_hot", [](X, X at) { return at::one_hot(at, 4); }},
      {"bincount", [](X, X at) { return at::bincount(at); }},
  };
  return operators;
}

/// Of a tensor and of one index for each of its numbers.
const std::vector<std::pair<std::string, Two>>& operators_of_places() {
  static const std::vector<std::pair<std::string, Two>> operators{
      {"gather", [](X x, X at) { return x.gather(0, at); }},
      {"gather along 1", [](X x, X at) { return x.gather(1, at); }},
      {"scatter", [](X x, X at) { return x.scatter(0, at, x); }},
      {"scatter along 1", [](X x, X at) { return x.scatter(1, at, x); }},
      {"scatter_ a number", [](X x, X at) { return x.clone().scatter_(1, at, 3); }},
      {"scatter_add", [](X x, X at) { return x.scatter_add(0, at, x); }},
      {"scatter_add_ along 1", [](X x, X at) { return x.clone().scatter_add_(1, at, x); }},
      {"scatter_reduce", [](X x, X at) { return x.scatter_reduce(0, at, x, "amax"); }},
      {"take_along_dim", [](X x, X at) { return at::take_along_dim(x, at, 0); }},
      {"gather_backward", [](X x, X at) { return at::gather_backward(x, x, 1, at, false); }},
  };
  return operators;
}

void add_one_wrong(std::vector<Attempt>& all, const std::string& name, Two run, X right) {
  for (const std::int64_t position : {0, 3, 7}) {
    for (const std::int64_t wrong : {-1, -5, 4, 100}) {
      if (position >= right.numel()) continue;
      auto at = right.clone();
      at.view({-1})[position] = wrong;
      all.push_back(on(name + " with " + std::to_string(wrong) + " at " + std::to_string(position),
                       {floats({4, 4}), at}, [run](In in) { return Tensors{run(in[0], in[1])}; }));
    }
  }
}

void add_wrong_shapes(std::vector<Attempt>& all, const std::string& name, Two run) {
  const std::vector<std::vector<std::int64_t>> sizes{{},     {0},    {1},    {3},    {5},      {4, 4},
                                                     {2, 4}, {5, 4}, {4, 5}, {0, 4}, {2, 4, 4}};
  for (const auto& each : sizes) {
    all.push_back(on(name + " with indices of " + c10::str(at::IntArrayRef(each)),
                     {floats({4, 4}), zeros_and_ones(each)}, [run](In in) { return Tensors{run(in[0], in[1])}; }));
  }
  for (const auto& each : std::vector<std::vector<std::int64_t>>{{}, {0}, {4}, {0, 4}, {1, 1}, {2, 4, 4}}) {
    all.push_back(on(name + " of " + c10::str(at::IntArrayRef(each)), {floats(each), zeros_and_ones({4})},
                     [run](In in) { return Tensors{run(in[0], in[1])}; }));
  }
  for (const auto dtype : {at::kInt, at::kFloat, at::kBool, at::kByte}) {
    all.push_back(on(name + " with indices of dtype " + c10::toString(dtype),
                     {floats({4, 4}), zeros_and_ones({4}).to(dtype)},
                     [run](In in) { return Tensors{run(in[0], in[1])}; }));
  }
}

}  // namespace

std::vector<Attempt> indices() {
  std::vector<Attempt> all;
  for (const auto& [name, run] : operators_of_indices()) {
    add_one_wrong(all, name, run, zeros_and_ones({4}));
    add_wrong_shapes(all, name, run);
  }
  for (const auto& [name, run] : operators_of_places()) {
    add_one_wrong(all, name, run, zeros_and_ones({2, 4}));
    add_wrong_shapes(all, name, run);
  }
  all.push_back(on("index with too many", {floats({4, 3}), zeros_and_ones({2})}, [](In in) {
    return Tensors{in[0].index({in[1], in[1], in[1]})};
  }));
  all.push_back(
      on("index that do not broadcast", {floats({4, 3}), zeros_and_ones({2}), zeros_and_ones({3})}, [](In in) {
        return Tensors{in[0].index({in[1], in[2]})};
      }));
  all.push_back(on("index_put_ of values that do not fit", {floats({4, 3}), zeros_and_ones({2}), floats({5})},
                   [](In in) { return Tensors{in[0].index_put_({in[1]}, in[2])}; }));
  all.push_back(on("index_add of too few rows", {floats({4, 3}), zeros_and_ones({2}), floats({3, 3})},
                   [](In in) { return Tensors{in[0].index_add(0, in[1], in[2])}; }));
  all.push_back(on("index_copy of other columns", {floats({4, 3}), zeros_and_ones({2}), floats({2, 4})},
                   [](In in) { return Tensors{in[0].index_copy(0, in[1], in[2])}; }));
  all.push_back(on("scatter of too few", {floats({4, 3}), zeros_and_ones({4, 3}), floats({2, 3})},
                   [](In in) { return Tensors{in[0].scatter(0, in[1], in[2])}; }));
  all.push_back(on("scatter of another dtype", {floats({4, 3}), zeros_and_ones({4, 3}), zeros_and_ones({4, 3})},
                   [](In in) { return Tensors{in[0].scatter(0, in[1], in[2])}; }));
  all.push_back(on("put_ of too few", {floats({4, 3}), zeros_and_ones({5}), floats({2})},
                   [](In in) { return Tensors{in[0].put_(in[1], in[2])}; }));
  all.push_back(on("embedding backward of other rows", {floats({5, 3}), zeros_and_ones({4})},
                   [](In in) { return Tensors{at::embedding_dense_backward(in[0], in[1], 2, -1, false)}; }));
  return all;
}

}  // namespace lockstep::test
