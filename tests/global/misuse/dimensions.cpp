// Operators that take a dimension, with one that the tensor does not have.
#include "attempts.h"

namespace lockstep::test {

/// Each operator that takes a dimension, with one that the tensor does not have, before and behind.
std::vector<Attempt> dimensions() {
  using AtDim = torch::Tensor (*)(X, std::int64_t);
  const std::vector<std::pair<std::string, AtDim>> operators{
      {"sum", [](X x, std::int64_t dim) { return x.sum(dim); }},
      {"mean", [](X x, std::int64_t dim) { return x.mean(dim); }},
      {"amax", [](X x, std::int64_t dim) { return x.amax(dim); }},
      {"max", [](X x, std::int64_t dim) { return std::get<0>(x.max(dim)); }},
      {"min", [](X x, std::int64_t dim) { return std::get<1>(x.min(dim)); }},
      {"argmax", [](X x, std::int64_t dim) { return x.argmax(dim); }},
      {"prod", [](X x, std::int64_t dim) { return x.prod(dim); }},
      {"any", [](X x, std::int64_t dim) { return x.any(dim); }},
      {"var", [](X x, std::int64_t dim) { return x.var(at::IntArrayRef(dim)); }},
      {"std_mean", [](X x, std::int64_t dim) { return std::get<1>(at::std_mean(x, at::IntArrayRef(dim))); }},
      {"norm", [](X x, std::int64_t dim) { return at::linalg_vector_norm(x, 2, at::IntArrayRef{dim}); }},
      {"logsumexp", [](X x, std::int64_t dim) { return x.logsumexp(dim); }},
      {"count_nonzero", [](X x, std::int64_t dim) { return x.count_nonzero(at::IntArrayRef(dim)); }},
      {"median", [](X x, std::int64_t dim) { return std::get<0>(x.median(dim)); }},
      {"kthvalue", [](X x, std::int64_t dim) { return std::get<0>(x.kthvalue(1, dim)); }},
      {"mode", [](X x, std::int64_t dim) { return std::get<0>(x.mode(dim)); }},
      {"cumsum", [](X x, std::int64_t dim) { return x.cumsum(dim); }},
      {"cumprod", [](X x, std::int64_t dim) { return x.cumprod(dim); }},
      {"cummax", [](X x, std::int64_t dim) { return std::get<0>(x.cummax(dim)); }},
      {"logcumsumexp", [](X x, std::int64_t dim) { return x.logcumsumexp(dim); }},
      {"sort", [](X x, std::int64_t dim) { return std::get<0>(x.sort(dim)); }},
      {"topk", [](X x, std::int64_t dim) { return std::get<0>(x.topk(2, dim)); }},
      {"softmax", [](X x, std::int64_t dim) { return x.softmax(dim); }},
      {"log_softmax", [](X x, std::int64_t dim) { return x.log_softmax(dim); }},
      {"select", [](X x, std::int64_t dim) { return x.select(dim, 0); }},
      {"narrow", [](X x, std::int64_t dim) { return x.narrow(dim, 0, 2); }},
      {"slice", [](X x, std::int64_t dim) { return x.slice(dim, 0, 2); }},
      {"unsqueeze", [](X x, std::int64_t dim) { return x.unsqueeze(dim); }},
      {"squeeze", [](X x, std::int64_t dim) { return x.squeeze(dim); }},
      {"transpose", [](X x, std::int64_t dim) { return x.transpose(0, dim); }},
      {"movedim", [](X x, std::int64_t dim) { return x.movedim(0, dim); }},
      {"unbind", [](X x, std::int64_t dim) { return x.unbind(dim).at(0); }},
      {"split", [](X x, std::int64_t dim) { return x.split(2, dim).at(0); }},
      {"chunk", [](X x, std::int64_t dim) { return x.chunk(2, dim).at(0); }},
      {"split_with_sizes",
       [](X x, std::int64_t dim) {
         return x.split_with_sizes({1, 3}, dim).at(0);
       }},
      {"cat",
       [](X x, std::int64_t dim) {
         return at::cat({x, x}, dim);
       }},
      {"stack",
       [](X x, std::int64_t dim) {
         return at::stack({x, x}, dim);
       }},
      {"flip", [](X x, std::int64_t dim) { return x.flip(dim); }},
      {"roll", [](X x, std::int64_t dim) { return x.roll(1, dim); }},
      {"unfold", [](X x, std::int64_t dim) { return x.unfold(dim, 2, 1); }},
      {"diagonal", [](X x, std::int64_t dim) { return x.diagonal(0, 0, dim); }},
      {"flatten", [](X x, std::int64_t dim) { return x.flatten(0, dim); }},
      {"glu", [](X x, std::int64_t dim) { return at::glu(x, dim); }},
      {"renorm", [](X x, std::int64_t dim) { return x.renorm(2, dim, 1); }},
      {"repeat_interleave", [](X x, std::int64_t dim) { return x.repeat_interleave(2, dim); }},
      {"unsqueeze_", [](X x, std::int64_t dim) { return x.clone().unsqueeze_(dim); }},
      {"transpose_", [](X x, std::int64_t dim) { return x.clone().transpose_(0, dim); }},
      {"index_select",
       [](X x, std::int64_t dim) { return x.index_select(dim, at::zeros({1}, x.options().dtype(at::kLong))); }},
      {"gather",
       [](X x, std::int64_t dim) {
         return x.gather(dim, at::zeros({1, 1}, x.options().dtype(at::kLong)));
       }},
      {"index_fill",
       [](X x, std::int64_t dim) { return x.index_fill(dim, at::zeros({1}, x.options().dtype(at::kLong)), 3); }},
      {"scatter",
       [](X x, std::int64_t dim) {
         return x.scatter(dim, at::zeros({1, 1}, x.options().dtype(at::kLong)), 3);
       }},
  };
  std::vector<Attempt> all;
  for (const auto& [name, run] : operators) {
    for (const std::int64_t dim : {-3, -2, 1, 2, 100}) {
      all.push_back(on(name + " along " + std::to_string(dim), {floats({4, 3})},
                       [run = run, dim](In in) { return Tensors{run(in[0], dim)}; }));
    }
    all.push_back(on(name + " of a number", {floats({})}, [run = run](In in) { return Tensors{run(in[0], 0)}; }));
    all.push_back(on(name + " of nothing", {floats({0, 3})}, [run = run](In in) { return Tensors{run(in[0], 0)}; }));
  }
  return all;
}

}  // namespace lockstep::test
