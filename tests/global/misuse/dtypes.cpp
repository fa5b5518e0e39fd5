// Dtypes that an operator does not take, or not beside each other. Some of the parts are empty, and libtorch's kernels
// do not look at the dtype of those.
#include "attempts.h"

#include <array>

namespace lockstep::test {
namespace {

constexpr std::array kDtypes{at::kBool,  at::kByte,   at::kInt,      at::kLong,        at::kHalf,
                             at::kFloat, at::kDouble, at::kBFloat16, at::kComplexFloat};

/// Small whole numbers, which all dtypes have.
torch::Tensor numbers(std::vector<std::int64_t> sizes, at::ScalarType dtype) {
  return torch::randint(2, sizes, torch::kLong).to(dtype);
}

const std::vector<std::pair<std::string, One>>& operators_of_one_dtype() {
  static const std::vector<std::pair<std::string, One>> operators{
      {"sum", [](X x) { return x.sum(); }},
      {"mean", [](X x) { return x.mean(); }},
      {"mean along 0", [](X x) { return x.mean(0); }},
      {"var", [](X x) { return x.var(); }},
      {"std along 0", [](X x) { return x.std(at::IntArrayRef{0}); }},
      {"norm", [](X x) { return x.norm(); }},
      {"vector_norm", [](X x) { return at::linalg_vector_norm(x, 2, at::IntArrayRef{1}); }},
      {"prod", [](X x) { return x.prod(); }},
      {"max", [](X x) { return x.max(); }},
      {"amin", [](X x) { return x.amin(1); }},
      {"argmax", [](X x) { return x.argmax(0); }},
      {"any", [](X x) { return x.any(); }},
      {"logsumexp", [](X x) { return x.logsumexp(0); }},
      {"median", [](X x) { return x.median(); }},
      {"cumsum", [](X x) { return x.cumsum(0); }},
      {"cumprod into integers", [](X x) { return x.cumprod(0, at::kLong); }},
      {"sort", [](X x) { return std::get<0>(x.sort(0)); }},
      {"topk", [](X x) { return std::get<0>(x.topk(1, 0)); }},
      {"softmax", [](X x) { return x.softmax(0); }},
      {"log_softmax", [](X x) { return x.log_softmax(1); }},
      {"sqrt", [](X x) { return x.sqrt(); }},
      {"floor", [](X x) { return x.floor(); }},
      {"round", [](X x) { return x.round(); }},
      {"neg", [](X x) { return x.neg(); }},
      {"abs", [](X x) { return x.abs(); }},
      {"sign", [](X x) { return x.sign(); }},
      {"reciprocal", [](X x) { return x.reciprocal(); }},
      {"bitwise_not", [](X x) { return x.bitwise_not(); }},
      {"logical_not", [](X x) { return x.logical_not(); }},
      {"relu", [](X x) { return x.relu(); }},
      {"gelu", [](X x) { return at::gelu(x); }},
      {"silu", [](X x) { return at::silu(x); }},
      {"elu", [](X x) { return at::elu(x); }},
      {"softplus", [](X x) { return at::softplus(x); }},
      {"leaky_relu", [](X x) { return at::leaky_relu(x); }},
      {"hardtanh", [](X x) { return at::hardtanh(x); }},
      {"sigmoid", [](X x) { return x.sigmoid(); }},
      {"clamp", [](X x) { return x.clamp(0, 1); }},
      {"isnan", [](X x) { return x.isnan(); }},
      {"add 1.5", [](X x) { return x + 1.5; }},
      {"less than 1", [](X x) { return x < 1; }},
      {"add_ 1.5", [](X x) { return x.clone().add_(1.5); }},
      {"sub 1", [](X x) { return x - 1; }},
      {"div_ by 2", [](X x) { return x.clone().div_(2); }},
      {"floor_divide", [](X x) { return x.div(2, "floor"); }},
      {"remainder", [](X x) { return x.remainder(2); }},
      {"pow of -1", [](X x) { return x.pow(-1); }},
      {"shift", [](X x) { return x.bitwise_left_shift(1); }},
      {"exp_", [](X x) { return x.clone().exp_(); }},
      {"tril", [](X x) { return x.tril(); }},
      {"flip", [](X x) { return x.flip(0); }},
      {"roll", [](X x) { return x.roll(1, 0); }},
      {"nonzero", [](X x) { return x.nonzero(); }},
      {"unique", [](X x) { return std::get<0>(at::_unique(x)); }},
      {"histc", [](X x) { return x.histc(2); }},
      {"det", [](X x) { return at::linalg_det(x.narrow(1, 0, 2)); }},
      {"fft", [](X x) { return at::fft_fft(x); }},
      {"rfft", [](X x) { return at::fft_rfft(x); }},
      {"view as int16", [](X x) { return x.view(at::kShort); }},
      {"real", [](X x) { return at::real(x); }},
      {"imag", [](X x) { return at::imag(x); }},
      {"angle", [](X x) { return x.angle(); }},
      {"view_as_complex", [](X x) { return at::view_as_complex(x.narrow(1, 0, 2).contiguous()); }},
      {"dropout", [](X x) { return at::dropout(x, 0.5, true); }},
      {"normal_", [](X x) { return x.clone().normal_(); }},
      {"uniform_", [](X x) { return x.clone().uniform_(); }},
      {"bernoulli", [](X x) { return x.bernoulli(); }},
      {"exponential_", [](X x) { return x.clone().exponential_(); }},
      {"random_", [](X x) { return x.clone().random_(0, 2); }},
      {"layer_norm", [](X x) { return at::layer_norm(x, {3}); }},
      {"batch_norm", [](X x) { return at::batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, false); }},
      {"max_pool2d",
       [](X x) {
         return at::max_pool2d(x.view({2, 1, 1, 3}), {1, 2});
       }},
      {"avg_pool2d",
       [](X x) {
         return at::avg_pool2d(x.view({2, 1, 1, 3}), {1, 2});
       }},
      {"upsample_nearest2d",
       [](X x) {
         return at::upsample_nearest2d(x.view({2, 1, 1, 3}), {2, 2});
       }},
      {"pad",
       [](X x) {
         return at::constant_pad_nd(x, {1, 1}, 1.5);
       }},
      {"reflection_pad",
       [](X x) {
         return at::reflection_pad1d(x, {1, 1});
       }},
      {"one_hot", [](X x) { return at::one_hot(x, 3); }},
      {"bincount", [](X x) { return at::bincount(x.select(1, 0)); }},
      {"as index",
       [](X x) {
         return at::arange(12., x.options().dtype(at::kFloat)).view({4, 3}).index({x.select(1, 0)});
       }},
      {"as indices of an embedding",
       [](X x) {
         return at::embedding(at::ones({4, 3}, x.options().dtype(at::kFloat)), x);
       }},
      {"as mask",
       [](X x) {
         return at::ones({2, 3}, x.options().dtype(at::kFloat)).masked_fill(x, 2);
       }},
      {"as condition", [](X x) { return at::where(x, 1., 2.); }},
      {"sum into bool", [](X x) { return x.sum(at::kBool); }},
      {"mean into integers", [](X x) { return x.mean(at::kLong); }},
      {"softmax into half", [](X x) { return x.softmax(0, at::kHalf); }},
      {"to bfloat16", [](X x) { return x.to(at::kBFloat16); }},
      {"fill_ with 1.5", [](X x) { return x.clone().fill_(1.5); }},
      {"item", [](X x) { return at::full({}, x.select(0, 0).select(0, 0).item<bool>()); }},
  };
  return operators;
}

const std::vector<std::pair<std::string, Two>>& operators_of_two_dtypes() {
  static const std::vector<std::pair<std::string, Two>> operators{
      {"add", [](X a, X b) { return a + b; }},
      {"sub", [](X a, X b) { return a - b; }},
      {"div", [](X a, X b) { return a / b; }},
      {"pow", [](X a, X b) { return a.pow(b); }},
      {"maximum", [](X a, X b) { return at::maximum(a, b); }},
      {"atan2", [](X a, X b) { return a.atan2(b); }},
      {"bitwise_and", [](X a, X b) { return a.bitwise_and(b); }},
      {"less", [](X a, X b) { return a < b; }},
      {"lerp", [](X a, X b) { return a.lerp(b, 0.5); }},
      {"addcmul", [](X a, X b) { return a.addcmul(a, b); }},
      {"add_", [](X a, X b) { return a.clone().add_(b); }},
      {"div_", [](X a, X b) { return a.clone().div_(b); }},
      {"copy_", [](X a, X b) { return a.clone().copy_(b); }},
      {"mm", [](X a, X b) { return a.mm(b.t()); }},
      {"addmm", [](X a, X b) { return at::addmm(a.select(0, 0), a, b.narrow(1, 0, 2)); }},
      {"linear", [](X a, X b) { return at::linear(a, b); }},
      {"bmm", [](X a, X b) { return a.unsqueeze(0).bmm(b.t().unsqueeze(0)); }},
      {"mv", [](X a, X b) { return a.mv(b.select(0, 0)); }},
      {"dot", [](X a, X b) { return a.select(0, 0).dot(b.select(0, 1)); }},
      {"conv1d", [](X a, X b) { return at::conv1d(a.unsqueeze(1), b.unsqueeze(1)); }},
      {"batch_norm", [](X a, X b) { return at::batch_norm(a, b.select(0, 0), {}, {}, {}, true, 0.1, 1e-5, false); }},
      {"layer_norm", [](X a, X b) { return at::layer_norm(a, {3}, b.select(0, 0)); }},
      {"cat",
       [](X a, X b) {
         return at::cat({a, b});
       }},
      {"where", [](X a, X b) { return at::where(a > 0, a, b); }},
      {"masked_fill", [](X a, X b) { return a.masked_fill(b, 2); }},
      {"index_put",
       [](X a, X b) { return a.index_put({at::zeros({1}, a.options().dtype(at::kLong))}, b.select(0, 0)); }},
      {"index_add", [](X a, X b) { return a.index_add(0, at::zeros({2}, a.options().dtype(at::kLong)), b); }},
      {"scatter",
       [](X a, X b) {
         return a.scatter(0, at::zeros({2, 3}, a.options().dtype(at::kLong)), b);
       }},
      {"gather", [](X a, X b) { return a.gather(0, b); }},
      {"index_select", [](X a, X b) { return a.index_select(0, b.select(0, 0)); }},
      {"mse_loss", [](X a, X b) { return at::mse_loss(a, b); }},
      {"binary_cross_entropy", [](X a, X b) { return at::binary_cross_entropy(a, b); }},
      {"prelu", [](X a, X b) { return a.prelu(b.select(0, 0)); }},
      {"threshold_backward", [](X a, X b) { return at::threshold_backward(a, b, 0); }},
  };
  return operators;
}

/// Of all pairs of dtypes, every so many are tried for an operator.
constexpr std::size_t kEachPair = 2;

}  // namespace

std::vector<Attempt> dtypes() {
  std::vector<Attempt> all;
  for (const auto& [name, run] : operators_of_one_dtype()) {
    for (const auto dtype : kDtypes) {
      all.push_back(on(name + " of " + c10::toString(dtype), {numbers({2, 3}, dtype)},
                       [run = run](In in) { return Tensors{run(in[0])}; }));
    }
  }
  std::size_t number = 0;
  for (const auto& [name, run] : operators_of_two_dtypes()) {
    for (const auto first : kDtypes) {
      for (const auto second : kDtypes) {
        if (number++ % kEachPair != 0) continue;
        all.push_back(on(name + " of " + c10::toString(first) + " and " + c10::toString(second),
                         {numbers({2, 3}, first), torch::ones({2, 3}, second)},
                         [run = run](In in) { return Tensors{run(in[0], in[1])}; }));
      }
    }
  }
  return all;
}

}  // namespace lockstep::test
