// Operators of several tensors, with shapes that do not fit each other.
#include "attempts.h"

#include <array>

namespace lockstep::test {
namespace {

/// Of all pairs of an operator and two shapes, every so many are tried: prime, so that all operators and all shapes
/// are.
constexpr std::size_t kEach = 5;

const std::vector<std::pair<std::string, Two>>& operators_of_two_shapes() {
  static const std::vector<std::pair<std::string, Two>> operators{
      {"add", [](X a, X b) { return a + b; }},
      {"sub with alpha", [](X a, X b) { return at::sub(a, b, 2); }},
      {"div", [](X a, X b) { return a / b; }},
      {"pow", [](X a, X b) { return a.abs().pow(b); }},
      {"maximum", [](X a, X b) { return at::maximum(a, b); }},
      {"atan2", [](X a, X b) { return a.atan2(b); }},
      {"less", [](X a, X b) { return a < b; }},
      {"logical_and", [](X a, X b) { return a.logical_and(b); }},
      {"where", [](X a, X b) { return at::where(a > 0, a, b); }},
      {"where of a condition", [](X a, X b) { return at::where(a > 0, b, 3); }},
      {"lerp", [](X a, X b) { return a.lerp(b, 0.5); }},
      {"addcmul", [](X a, X b) { return a.addcmul(a, b); }},
      {"addcdiv", [](X a, X b) { return b.addcdiv(a, b); }},
      {"masked_fill", [](X a, X b) { return a.masked_fill(b > 0, 3); }},
      {"masked_select", [](X a, X b) { return a.masked_select(b > 0); }},
      {"masked_scatter", [](X a, X b) { return a.masked_scatter(a > 0, b); }},
      {"clamp", [](X a, X b) { return a.clamp(b); }},
      {"prelu", [](X a, X b) { return a.prelu(b); }},
      {"add_", [](X a, X b) { return a.clone().add_(b); }},
      {"mul_ of itself", [](X a, X b) { return a.mul_(b); }},
      {"copy_", [](X a, X b) { return a.clone().copy_(b); }},
      {"masked_fill_", [](X a, X b) { return a.clone().masked_fill_(b > 0, 3); }},
      {"addmm_", [](X a, X b) { return a.clone().addmm_(a, b); }},
      {"eq_", [](X a, X b) { return a.clone().eq_(b); }},
      {"write to a row", [](X a, X b) { return a.clone().select(0, 0).copy_(b); }},
      {"write to a column", [](X a, X b) { return a.clone().select(-1, 0).add_(b); }},
      {"mm", [](X a, X b) { return a.mm(b); }},
      {"bmm", [](X a, X b) { return a.bmm(b); }},
      {"mv", [](X a, X b) { return a.mv(b); }},
      {"dot", [](X a, X b) { return a.dot(b); }},
      {"vdot", [](X a, X b) { return a.vdot(b); }},
      {"outer", [](X a, X b) { return a.outer(b); }},
      {"matmul", [](X a, X b) { return a.matmul(b); }},
      {"addmm", [](X a, X b) { return at::addmm(a, b, b); }},
      {"addmm of a bias", [](X a, X b) { return at::addmm(a, b, b.t()); }},
      {"addmv", [](X a, X b) { return at::addmv(b, a, b); }},
      {"baddbmm", [](X a, X b) { return at::baddbmm(a, a, b); }},
      {"addbmm", [](X a, X b) { return at::addbmm(a, a, b); }},
      {"addr", [](X a, X b) { return at::addr(a, b, b); }},
      {"linear", [](X a, X b) { return at::linear(a, b); }},
      {"linear with a bias", [](X a, X b) { return at::linear(a, a, b); }},
      {"bilinear", [](X a, X b) { return at::bilinear(a, a, b, {}); }},
      {"einsum",
       [](X a, X b) {
         return at::einsum("ij,jk->ik", {a, b});
       }},
      {"tensordot", [](X a, X b) { return at::tensordot(a, b, {0}, {0}); }},
      {"kron", [](X a, X b) { return at::kron(a, b); }},
      {"cross", [](X a, X b) { return at::linalg_cross(a, b); }},
      {"solve", [](X a, X b) { return at::linalg_solve(at::eye(3, a.options()) + 0 * a, b); }},
      {"cdist", [](X a, X b) { return at::cdist(a, b); }},
      {"dist", [](X a, X b) { return a.dist(b); }},
      {"cosine_similarity", [](X a, X b) { return at::cosine_similarity(a, b); }},
      {"pairwise_distance", [](X a, X b) { return at::pairwise_distance(a, b); }},
      {"cat",
       [](X a, X b) {
         return at::cat({a, b});
       }},
      {"cat along 1",
       [](X a, X b) {
         return at::cat({a, b}, 1);
       }},
      {"stack",
       [](X a, X b) {
         return at::stack({a, b});
       }},
      {"hstack",
       [](X a, X b) {
         return at::hstack({a, b});
       }},
      {"block_diag",
       [](X a, X b) {
         return at::block_diag({a, b});
       }},
      {"expand_as", [](X a, X b) { return a.expand_as(b); }},
      {"view_as", [](X a, X b) { return a.view_as(b); }},
      {"reshape_as", [](X a, X b) { return a.reshape_as(b); }},
      {"broadcast_tensors",
       [](X a, X b) {
         return at::broadcast_tensors({a, b}).at(1);
       }},
      {"meshgrid",
       [](X a, X b) {
         return at::meshgrid({a, b}, "ij").at(1);
       }},
      {"isclose", [](X a, X b) { return at::isclose(a, b); }},
      {"equal", [](X a, X b) { return at::full({}, at::equal(a, b)); }},
      {"index of a mask", [](X a, X b) { return a.index({b > 0}); }},
      {"set a mask", [](X a, X b) { return a.clone().index_put_({a > 0}, b); }},
      {"mse_loss", [](X a, X b) { return at::mse_loss(a, b); }},
      {"mse_loss place by place", [](X a, X b) { return at::mse_loss(a, b, at::Reduction::None); }},
      {"l1_loss", [](X a, X b) { return at::l1_loss(a, b); }},
      {"smooth_l1_loss", [](X a, X b) { return at::smooth_l1_loss(a, b); }},
      {"huber_loss", [](X a, X b) { return at::huber_loss(a, b, at::Reduction::Sum); }},
      {"soft_margin_loss", [](X a, X b) { return at::soft_margin_loss(a, b); }},
      {"binary_cross_entropy",
       [](X a, X b) { return torch::nn::functional::binary_cross_entropy(a.sigmoid(), b.sigmoid()); }},
      {"of logits", [](X a, X b) { return at::binary_cross_entropy_with_logits(a, b); }},
      {"kl_div", [](X a, X b) { return at::kl_div(a, b.abs()); }},
      {"threshold_backward", [](X a, X b) { return at::threshold_backward(a, b, 0); }},
      {"tanh_backward", [](X a, X b) { return at::tanh_backward(a, b); }},
      {"softmax_backward", [](X a, X b) { return at::_softmax_backward_data(a, b, 0, at::kFloat); }},
  };
  return operators;
}

}  // namespace

std::vector<Attempt> pairs() {
  const std::vector<std::vector<std::int64_t>> sizes{{},     {0},    {1},    {3},       {4},       {4, 3},   {3, 4},
                                                     {3, 3}, {1, 3}, {0, 3}, {5, 4, 3}, {5, 3, 4}, {4, 3, 4}};
  std::vector<Attempt> all;
  std::size_t number = 0;
  for (const auto& [name, run] : operators_of_two_shapes()) {
    for (const auto& first : sizes) {
      for (const auto& second : sizes) {
        if (number++ % kEach != 0) continue;
        const auto what = name + " of " + c10::str(at::IntArrayRef(first), " and ", at::IntArrayRef(second));
        all.push_back(
            on(what, {floats(first), floats(second)}, [run = run](In in) { return Tensors{run(in[0], in[1])}; }));
      }
    }
  }
  return all;
}

}  // namespace lockstep::test
