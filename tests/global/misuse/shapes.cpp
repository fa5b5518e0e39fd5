// Wrong shapes, sizes and numbers for operators of one tensor.
#include "attempts.h"

namespace lockstep::test {

std::vector<Attempt> shapes() {
  return {
      one("expand to other sizes", {4, 3},
          [](X x) {
            return x.expand({5, 3});
          }),
      one("expand to fewer dimensions", {4, 3}, [](X x) { return x.expand({3}); }),
      one("expand to -1 in front", {4, 3},
          [](X x) {
            return x.expand({-1, 4, 3});
          }),
      one("expand to -2", {1, 3},
          [](X x) {
            return x.expand({-2, 3});
          }),
      one("expand", {1, 3},
          [](X x) {
            return x.expand({2, 4, -1});
          }),
      one("view of another number", {4, 3},
          [](X x) {
            return x.view({5, 3});
          }),
      one("view with two unknown sizes", {4, 3},
          [](X x) {
            return x.view({-1, -1});
          }),
      one("view with a negative size", {4, 3},
          [](X x) {
            return x.view({-3, -4});
          }),
      one("view that does not divide", {4, 3},
          [](X x) {
            return x.view({-1, 5});
          }),
      one("view of the transposed", {4, 3}, [](X x) { return x.t().view({12}); }),
      one("view of nothing", {0, 3},
          [](X x) {
            return x.view({-1, 0});
          }),
      one("view as a larger dtype", {4, 3}, [](X x) { return x.view(at::kDouble); }),
      one("reshape to another number", {4, 3}, [](X x) { return x.reshape({7}); }),
      one("t of three dimensions", {2, 2, 2}, [](X x) { return x.t(); }),
      one("permute with too few", {4, 3}, [](X x) { return x.permute({0}); }),
      one("permute with one twice", {4, 3},
          [](X x) {
            return x.permute({0, 0});
          }),
      one("permute with one too large", {4, 3},
          [](X x) {
            return x.permute({0, 2});
          }),
      one("select behind the end", {4, 3}, [](X x) { return x.select(0, 4); }),
      one("select before the start", {4, 3}, [](X x) { return x.select(0, -5); }),
      one("narrow behind the end", {4, 3}, [](X x) { return x.narrow(0, 2, 3); }),
      one("narrow of a negative length", {4, 3}, [](X x) { return x.narrow(0, 2, -1); }),
      one("slice by zero", {4, 3}, [](X x) { return x.slice(0, 0, 4, 0); }),
      one("slice by a negative step", {4, 3}, [](X x) { return x.slice(0, 0, 4, -1); }),
      one("slice far behind", {4, 3}, [](X x) { return x.slice(0, 100, 200); }),
      one("split into parts of 0", {4, 3}, [](X x) { return x.split(0, 0).front(); }),
      one("split with wrong sizes", {4, 3},
          [](X x) {
            return x.split_with_sizes({1, 1}, 0).front();
          }),
      one("chunk into none", {4, 3}, [](X x) { return x.chunk(0, 0).front(); }),
      one("unfold by more than there is", {4, 3}, [](X x) { return x.unfold(0, 5, 1); }),
      one("unfold with step 0", {4, 3}, [](X x) { return x.unfold(0, 2, 0); }),
      one("diagonal of one dimension twice", {4, 3}, [](X x) { return x.diagonal(0, 1, 1); }),
      one("repeat with too few", {4, 3}, [](X x) { return x.repeat({2}); }),
      one("repeat a negative number of times", {4, 3},
          [](X x) {
            return x.repeat({-1, 2});
          }),
      one("roll without dimensions", {4, 3},
          [](X x) {
            return x.roll({1, 1}, {0});
          }),
      one("flip twice along one", {4, 3},
          [](X x) {
            return x.flip({0, 0});
          }),
      one("tril of a row", {3}, [](X x) { return x.tril(); }),
      one("as_strided behind the memory", {4, 3},
          [](X x) {
            return x.as_strided({5, 5}, {3, 1});
          }),
      one("as_strided with too few strides", {4, 3},
          [](X x) {
            return x.as_strided({2, 2}, {1});
          }),
      one("as_strided with a negative size", {4, 3}, [](X x) { return x.as_strided({-1}, {1}); }),
      one("sum along one twice", {4, 3},
          [](X x) {
            return x.sum(at::IntArrayRef{0, 0});
          }),
      one("var along one twice", {4, 3},
          [](X x) {
            return x.var(at::IntArrayRef{0, 0});
          }),
      one("amax of nothing", {0, 3}, [](X x) { return x.amax(); }),
      one("argmax of nothing", {0}, [](X x) { return x.argmax(); }),
      one("topk of more than there is", {4, 3}, [](X x) { return std::get<0>(x.topk(5, 0)); }),
      one("topk of a negative number", {4, 3}, [](X x) { return std::get<0>(x.topk(-1, 0)); }),
      one("kthvalue of 0", {4, 3}, [](X x) { return std::get<0>(x.kthvalue(0, 0)); }),
      one("kthvalue behind the end", {4, 3}, [](X x) { return std::get<0>(x.kthvalue(5, 0)); }),
      one("squeeze of what is no 1", {4, 3}, [](X x) { return x.squeeze(0); }),
      one("item of several", {4, 3}, [](X x) { return at::full({}, x.item<float>()); }),
      one("movedim with unlike lists", {4, 3},
          [](X x) {
            return x.movedim({0, 1}, {0});
          }),
      one("cat of unlike dimensions", {4, 3},
          [](X x) {
            return at::cat({x, x.select(0, 0)});
          }),
      one("cat of unlike sizes", {4, 3},
          [](X x) {
            return at::cat({x, x.narrow(1, 0, 2)});
          }),
      one("stack of unlike sizes", {4, 3},
          [](X x) {
            return at::stack({x, x.narrow(1, 0, 2)});
          }),
      one("cat of none", {4, 3}, [](X x) { return at::cat(at::ArrayRef<at::Tensor>()) + x; }),
      one("pad by too little", {4, 3},
          [](X x) {
            return at::constant_pad_nd(x, {-3, -3});
          }),
      one("pad with an odd number", {4, 3}, [](X x) { return at::constant_pad_nd(x, {1}); }),
      one("pad by more dimensions", {4, 3},
          [](X x) {
            return at::constant_pad_nd(x, {1, 1, 1, 1, 1, 1});
          }),
      one("reflection pad by more than there is", {2, 3, 3},
          [](X x) {
            return at::reflection_pad1d(x, {3, 3});
          }),
      one("new_zeros of a negative size", {4, 3}, [](X x) { return x.new_zeros({-1}); }),
      one("new_full", {4, 3}, [](X x) { return x.new_full({2}, 3); }),
      one("resize_", {4, 3}, [](X x) { return x.clone().resize_({-1}); }),
      one("squeeze_ of three", {4, 1}, [](X x) { return x.clone().squeeze_(1); }),
      one("t_ of three dimensions", {2, 2, 2}, [](X x) { return x.clone().t_(); }),
      one("det of no square", {4, 3}, [](X x) { return at::linalg_det(x); }),
      one("inverse of no square", {4, 3}, [](X x) { return at::linalg_inv(x); }),
      one("cholesky of what has none", {3, 3}, [](X x) { return at::linalg_cholesky(-x.mm(x.t()) - 1); }),
      one("cross of two", {4, 2}, [](X x) { return at::linalg_cross(x, x); }),
      one("trace of a row", {4}, [](X x) { return x.trace(); }),
      one("fft of length 0", {4, 3}, [](X x) { return at::real(at::fft_fft(x, 0)); }),
      one("multinomial of negative weights", {3}, [](X x) { return at::multinomial(-x.abs() - 1, 2); }),
      one("bernoulli of 7", {3}, [](X x) { return at::bernoulli(x.abs() + 7); }),
      one("normal_ with a negative deviation", {4, 3}, [](X x) { return x.clone().normal_(0, -1); }),
      one("uniform_ from more to less", {4, 3}, [](X x) { return x.clone().uniform_(2, 1); }),
      one("dropout by 2", {4, 3}, [](X x) { return at::dropout(x, 2, true); }),
      one("histc", {4, 3}, [](X x) { return at::histc(x, 0); }),
      one("one_hot of floats", {4}, [](X x) { return at::one_hot(x); }),
      one("bincount of floats", {4}, [](X x) { return at::bincount(x); }),
      one("complex view of three", {4, 3}, [](X x) { return at::view_as_complex(x); }),
      one("imag of real numbers", {4, 3}, [](X x) { return at::imag(x); }),
  };
}

}  // namespace lockstep::test
