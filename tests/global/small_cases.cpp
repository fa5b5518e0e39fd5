// Operators of networks on so few pictures, channels and places that some ranks have none of them.
#include "network_cases.h"

namespace lockstep::test {
namespace {

namespace F = torch::nn::functional;
using Tensors = std::vector<torch::Tensor>;
using X = const torch::Tensor&;
using One = torch::Tensor (*)(X);
using Two = torch::Tensor (*)(X, X);

CaseInput few(std::vector<std::int64_t> sizes) { return {.value = torch::randn(sizes, torch::kDouble)}; }
CaseInput unchanged(const torch::Tensor& value) { return {.value = value, .differentiate = false}; }

OperatorCase of(std::string name, CaseInput input, One run) {
  return {std::move(name), {std::move(input)}, [run](const Tensors& in) { return Tensors{run(in[0])}; }};
}

OperatorCase of(std::string name, CaseInput first, CaseInput second, Two run) {
  return {std::move(name), {std::move(first), std::move(second)}, [run](const Tensors& in) {
            return Tensors{run(in[0], in[1])};
          }};
}

std::vector<OperatorCase> small_pools() {
  const auto row = few({1, 2, 8});
  const auto picture = few({1, 2, 6, 5});
  const auto block = few({1, 2, 4, 5, 6});
  return {
      of("local_response_norm of rows", row, [](X x) { return F::local_response_norm(x, 3); }),
      of("local_response_norm", picture, [](X x) { return F::local_response_norm(x, 3); }),
      of("local_response_norm of blocks", block, [](X x) { return F::local_response_norm(x, 2); }),
      of("max_pool1d", row, [](X x) { return at::max_pool1d(x, 2); }),
      of("max_pool2d", picture, [](X x) { return at::max_pool2d(x, 2); }),
      of("max_pool3d", block, [](X x) { return at::max_pool3d(x, 2); }),
      of("avg_pool1d", row, [](X x) { return at::avg_pool1d(x, 2); }),
      of("avg_pool2d", picture, [](X x) { return at::avg_pool2d(x, 2); }),
      of("avg_pool3d", block, [](X x) { return at::avg_pool3d(x, 2); }),
      of("adaptive_avg_pool1d", row, [](X x) { return at::adaptive_avg_pool1d(x, 3); }),
      of("adaptive_avg_pool2d", picture,
         [](X x) {
           return at::adaptive_avg_pool2d(x, {2, 3});
         }),
      of("adaptive_avg_pool3d", block,
         [](X x) {
           return at::adaptive_avg_pool3d(x, {2, 3, 2});
         }),
      of("adaptive_max_pool1d", row, [](X x) { return std::get<0>(at::adaptive_max_pool1d(x, 3)); }),
      of("adaptive_max_pool2d", picture,
         [](X x) {
           return std::get<0>(at::adaptive_max_pool2d(x, {2, 3}));
         }),
      of("adaptive_max_pool3d", block,
         [](X x) {
           return std::get<0>(at::adaptive_max_pool3d(x, {2, 3, 2}));
         }),
      of("lp_pool2d", picture, [](X x) { return F::lp_pool2d(x, F::LPPool2dFuncOptions(2, 2)); }),
      of("max_unpool2d", picture,
         [](X x) {
           const auto [largest, where] = at::max_pool2d_with_indices(x, 2);
           return at::max_unpool2d(largest, where, {6, 5});
         }),
      of("reflection_pad1d", row,
         [](X x) {
           return at::reflection_pad1d(x, {2, 1});
         }),
      of("reflection_pad2d", picture,
         [](X x) {
           return at::reflection_pad2d(x, {2, 1, 0, 3});
         }),
      of("reflection_pad3d", block,
         [](X x) {
           return at::reflection_pad3d(x, {2, 1, 0, 3, 1, 1});
         }),
      of("replication_pad1d", row,
         [](X x) {
           return at::replication_pad1d(x, {2, 1});
         }),
      of("replication_pad2d", picture,
         [](X x) {
           return at::replication_pad2d(x, {2, 1, 0, 3});
         }),
      of("replication_pad3d", block,
         [](X x) {
           return at::replication_pad3d(x, {2, 1, 0, 3, 1, 1});
         }),
      of("upsample_nearest1d", row, [](X x) { return at::upsample_nearest1d(x, {11}); }),
      of("upsample_linear1d", row, [](X x) { return at::upsample_linear1d(x, {11}, true); }),
      of("upsample_nearest2d", picture,
         [](X x) {
           return at::upsample_nearest2d(x, {7, 9});
         }),
      of("upsample_bilinear2d", picture,
         [](X x) {
           return at::upsample_bilinear2d(x, {7, 9}, true);
         }),
      of("upsample_bicubic2d", picture,
         [](X x) {
           return at::upsample_bicubic2d(x, {7, 9}, true);
         }),
      of("upsample_nearest3d", block,
         [](X x) {
           return at::upsample_nearest3d(x, {5, 6, 7});
         }),
      of("upsample_trilinear3d", block,
         [](X x) {
           return at::upsample_trilinear3d(x, {5, 6, 7}, true);
         }),
      of("reflection_pad2d", picture,
         [](X x) {
           return at::reflection_pad2d(x, {1, 2, 1, 1});
         }),
      of("replication_pad2d", picture,
         [](X x) {
           return at::replication_pad2d(x, {1, 2, 1, 1});
         }),
      of("circular pad", picture,
         [](X x) {
           return F::pad(x, F::PadFuncOptions({1, 1, 1, 1}).mode(torch::kCircular));
         }),
      of("pixel_shuffle", few({1, 4, 2, 2}), [](X x) { return at::pixel_shuffle(x, 2); }),
      of("pixel_unshuffle", few({1, 1, 4, 4}), [](X x) { return at::pixel_unshuffle(x, 2); }),
      of("unfold", picture,
         [](X x) {
           return at::im2col(x, {2, 2}, {1, 1}, {0, 0}, {1, 1});
         }),
      of("fold", few({1, 8, 4}),
         [](X x) {
           return at::col2im(x, {3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1});
         }),
      of("grid_sample", picture, few({1, 3, 3, 2}),
         [](X x, X at) { return at::grid_sampler(x, at.tanh(), 0, 0, true); }),
  };
}

std::vector<OperatorCase> small_norms() {
  const auto picture = few({1, 2, 3, 3});
  const auto rows = few({1, 3, 4});
  return {
      of("batch_norm of one picture", picture,
         [](X x) { return at::batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, false); }),
      of("batch_norm of one picture, with weights", picture, few({2}),
         [](X x, X weight) { return at::batch_norm(x, weight, weight, {}, {}, true, 0.1, 1e-5, false); }),
      of("batch_norm in evaluation", picture, unchanged(torch::rand({2}, torch::kDouble) + 1),
         [](X x, X running) { return at::batch_norm(x, {}, {}, running, running, false, 0.1, 1e-5, false); }),
      of("instance_norm", picture, [](X x) { return at::instance_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, false); }),
      of("group_norm", picture, few({2}), [](X x, X weight) { return at::group_norm(x, 2, weight, weight); }),
      of("layer_norm", rows, few({4}), [](X x, X weight) { return at::layer_norm(x, {4}, weight, weight); }),
      of("layer_norm of all", rows,
         [](X x) {
           return at::layer_norm(x, {3, 4});
         }),
      of("normalize", rows, [](X x) { return F::normalize(x, F::NormalizeFuncOptions().dim(1)); }),
      of("weight_norm", few({2, 3}), few({2, 1}), [](X v, X g) { return at::_weight_norm(v, g, 0); }),
      of("renorm", few({2, 3}), [](X x) { return x.renorm(2, 0, 0.5); }),
      of("softmax", rows, [](X x) { return x.softmax(0); }),
      of("softmax of places", rows, [](X x) { return x.softmax(1); }),
      of("log_softmax", rows, [](X x) { return x.log_softmax(0); }),
      of("log_softmax of places", rows, [](X x) { return x.log_softmax(2); }),
      of("softmin", few({1, 2}), [](X x) { return (-x).softmax(1); }),
      of("logsumexp", rows, [](X x) { return x.logsumexp(0); }),
      of("log_sigmoid", rows, [](X x) { return at::log_sigmoid(x); }),
      of("glu", few({1, 2, 4}), [](X x) { return at::glu(x, 1); }),
      of("prelu", rows, few({3}), [](X x, X weight) { return at::prelu(x, weight.abs()); }),
      of("var", rows, [](X x) { return x.var(1); }),
      of("std of all", rows, [](X x) { return x.std(); }),
      of("cumsum", rows, [](X x) { return x.cumsum(1); }),
      of("cumprod", rows, [](X x) { return x.cumprod(2); }),
      of("amax", rows, [](X x) { return x.amax(1); }),
      of("max", rows, [](X x) { return std::get<0>(x.max(2)); }),
      of("prod", rows, [](X x) { return x.prod(); }),
      of("median", rows, [](X x) { return std::get<0>(x.median(1)); }),
      of("sort", rows, [](X x) { return std::get<0>(x.sort(1)); }),
      of("norm", rows, [](X x) { return x.norm(3, {1}, false); }),
  };
}

std::vector<OperatorCase> small_convolutions() {
  return {
      of("conv1d", few({1, 2, 6}), few({1, 2, 3}), [](X x, X w) { return at::conv1d(x, w, {}, 1, 1); }),
      of("conv2d", few({1, 1, 5, 5}), few({2, 1, 3, 3}), [](X x, X w) { return at::conv2d(x, w); }),
      of("conv2d of one place", few({1, 2, 1, 1}), few({2, 2, 1, 1}), [](X x, X w) { return at::conv2d(x, w); }),
      of("conv2d in groups", few({1, 2, 5, 5}), few({2, 1, 3, 3}),
         [](X x, X w) { return at::conv2d(x, w, {}, 1, 1, 1, 2); }),
      of("conv2d without padding by its name", few({1, 2, 5, 5}), few({2, 2, 3, 3}),
         [](X x, X w) { return at::conv2d(x, w, {}, 1, "same"); }),
      of("conv3d", few({1, 1, 3, 3, 3}), few({2, 1, 2, 2, 2}), [](X x, X w) { return at::conv3d(x, w); }),
      of("conv_transpose1d", few({1, 2, 4}), few({2, 1, 3}), [](X x, X w) { return at::conv_transpose1d(x, w); }),
      of("conv_transpose2d", few({1, 1, 4, 4}), few({1, 2, 3, 3}),
         [](X x, X w) { return at::conv_transpose2d(x, w, {}, 2); }),
      of("linear", few({1, 3}), few({2, 3}), [](X x, X w) { return at::linear(x, w); }),
      of("linear of one number", few({1, 1}), few({1, 1}), [](X x, X w) { return at::linear(x, w); }),
      of("matmul", few({1, 2, 3}), few({3, 2}), [](X x, X y) { return x.matmul(y); }),
      of("bmm", few({1, 2, 3}), few({1, 3, 1}), [](X x, X y) { return x.bmm(y); }),
      of("dot", few({1}), few({1}), [](X x, X y) { return x.dot(y); }),
      of("cdist", few({2, 3}), few({1, 3}), [](X x, X y) { return at::cdist(x, y); }),
      of("cosine_similarity", few({1, 3}), few({1, 3}), [](X x, X y) { return at::cosine_similarity(x, y, 1); }),
      of("pairwise_distance", few({1, 3}), few({1, 3}), [](X x, X y) { return at::pairwise_distance(x, y); }),
      {"bilinear",
       {few({1, 2}), few({1, 3}), few({2, 2, 3})},
       [](const Tensors& in) { return Tensors{at::bilinear(in[0], in[1], in[2])}; }},
      {"embedding",
       {few({2, 3}), unchanged(torch::tensor({1}))},
       [](const Tensors& in) { return Tensors{at::embedding(in[0], in[1])}; }},
      {"embedding_bag",
       {few({3, 2}), unchanged(torch::tensor({1, 0, 2})), unchanged(torch::tensor({0}))},
       [](const Tensors& in) { return Tensors{std::get<0>(at::embedding_bag(in[0], in[1], in[2]))}; }},
      {"lstm",
       {few({1, 1, 2}), few({1, 1, 2}), few({1, 1, 2}), few({8, 2}), few({8, 2}), few({8}), few({8})},
       [](const Tensors& in) {
         const auto [output, hidden, cell] =
             torch::lstm(in[0], {in[1], in[2]}, {in[3], in[4], in[5], in[6]}, true, 1, 0.0, true, false, false);
         return Tensors{output, hidden, cell};
       }},
  };
}

std::vector<OperatorCase> small_losses() {
  const auto odds = [] { return unchanged(torch::rand({1, 3}, torch::kDouble)); };
  const auto signs = [] { return unchanged(torch::randn({1, 3}, torch::kDouble).sign()); };
  const auto a_class = unchanged(torch::tensor({1}));
  std::vector<OperatorCase> all;
  for (const std::int64_t reduction : {0, 1, 2}) {
    const auto as = " reduced as " + std::to_string(reduction);
    const auto loss = [&](const std::string& name, CaseInput first, CaseInput second,
                          torch::Tensor (*run)(X, X, std::int64_t)) {
      all.push_back({name + as, {std::move(first), std::move(second)}, [run, reduction](const Tensors& in) {
                       return Tensors{run(in[0], in[1], reduction)};
                     }});
    };
    using R = std::int64_t;
    loss("l1_loss", few({1, 3}), few({1, 3}), [](X x, X y, R how) { return at::l1_loss(x, y, how); });
    loss("mse_loss", few({1, 3}), few({1, 3}), [](X x, X y, R how) { return at::mse_loss(x, y, how); });
    loss("smooth_l1_loss", few({1, 3}), few({1, 3}), [](X x, X y, R how) { return at::smooth_l1_loss(x, y, how); });
    loss("huber_loss", few({1, 3}), few({1, 3}), [](X x, X y, R how) { return at::huber_loss(x, y, how); });
    loss("soft_margin_loss", few({1, 3}), signs(), [](X x, X y, R how) { return at::soft_margin_loss(x, y, how); });
    loss("binary_cross_entropy", few({1, 3}), odds(),
         [](X x, X y, R how) { return at::binary_cross_entropy(x.sigmoid(), y, {}, how); });
    loss("binary_cross_entropy_with_logits", few({1, 3}), odds(),
         [](X x, X y, R how) { return at::binary_cross_entropy_with_logits(x, y, {}, {}, how); });
    loss("kl_div", few({1, 3}), odds(), [](X x, X y, R how) { return at::kl_div(x.log_softmax(1), y, how); });
    loss("poisson_nll_loss", few({1, 3}), odds(),
         [](X x, X y, R how) { return at::poisson_nll_loss(x, y, true, true, 1e-8, how); });
    loss("hinge_embedding_loss", few({1, 3}), signs(),
         [](X x, X y, R how) { return at::hinge_embedding_loss(x, y, 1.0, how); });
    loss("nll_loss", few({1, 3}), a_class, [](X x, X y, R how) { return at::nll_loss(x, y, {}, how); });
    loss("cross_entropy", few({1, 3}), a_class, [](X x, X y, R how) { return at::cross_entropy_loss(x, y, {}, how); });
    loss("cross_entropy, smoothed", few({1, 3}), a_class,
         [](X x, X y, R how) { return at::cross_entropy_loss(x, y, {}, how, -100, 0.1); });
    loss("cross_entropy of odds", few({1, 3}), odds(),
         [](X x, X y, R how) { return at::cross_entropy_loss(x, y, {}, how); });
    loss("nll_loss of pictures", few({1, 2, 1, 2}), unchanged(torch::tensor({{{0, 1}}})),
         [](X x, X y, R how) { return at::nll_loss_nd(x, y, {}, how); });
    loss("multi_margin_loss", few({1, 3}), a_class,
         [](X x, X y, R how) { return at::multi_margin_loss(x, y, 1, 1, {}, how); });
    loss("multilabel_margin_loss", few({1, 3}), unchanged(torch::tensor({{2, 0, -1}})),
         [](X x, X y, R how) { return at::multilabel_margin_loss(x, y, how); });
    loss("cosine_embedding_loss", few({1, 3}), few({1, 3}),
         [](X x, X y, R how) { return at::cosine_embedding_loss(x, y, at::ones({1}, x.options()), 0.0, how); });
    loss("margin_ranking_loss", few({3}), few({3}),
         [](X x, X y, R how) { return at::margin_ranking_loss(x, y, at::ones({3}, x.options()), 0.5, how); });
    loss("triplet_margin_loss", few({1, 3}), few({1, 3}),
         [](X x, X y, R how) { return at::triplet_margin_loss(x, y, x * 2, 1, 2, 1e-6, false, how); });
    loss("ctc_loss", few({4, 1, 3}), unchanged(torch::tensor({{1, 2}})), [](X x, X y, R how) {
      return at::ctc_loss(x.log_softmax(2), y, at::IntArrayRef{4}, at::IntArrayRef{2}, 0, how);
    });
  }
  return all;
}

}  // namespace

std::vector<OperatorCase> small_cases() {
  torch::manual_seed(4);
  std::vector<OperatorCase> all;
  for (const auto& family : {small_pools(), small_norms(), small_convolutions(), small_losses()}) {
    all.insert(all.end(), family.begin(), family.end());
  }
  return all;
}

}  // namespace lockstep::test
