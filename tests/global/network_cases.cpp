#include "network_cases.h"

#include <torch/version.h>

#include <cmath>

namespace lockstep::test {
namespace {

namespace F = torch::nn::functional;
using Tensors = std::vector<torch::Tensor>;

CaseInput some(std::vector<std::int64_t> sizes) { return {.value = torch::randn(sizes)}; }
CaseInput fixed(const torch::Tensor& value) { return {.value = value, .differentiate = false}; }

Tensors causal_attention(const Tensors& in) {
#if TORCH_VERSION_MAJOR >= 2
  return {torch::scaled_dot_product_attention(in[0], in[1], in[2], {}, 0.0, /*is_causal=*/true)};
#else
  return {std::get<0>(torch::_scaled_dot_product_attention(in[0], in[1], in[2], {}, 0.0, false, /*is_causal=*/true))};
#endif
}

std::vector<OperatorCase> convolutions() {
  return {
      {"conv2d",
       {some({5, 4, 5, 5}), some({6, 4, 3, 3}), some({6})},
       [](const Tensors& in) { return Tensors{torch::conv2d(in[0], in[1], in[2], 1, 1)}; },
       1e-4},
      {"conv2d with fewer channels than ranks",
       {some({2, 3, 5, 4}), some({2, 3, 1, 1})},
       [](const Tensors& in) { return Tensors{torch::conv2d(in[0], in[1], {}, 2)}; }},
      {"conv2d in groups",
       {some({3, 12, 4, 4}), some({24, 2, 3, 3}), some({24})},
       [](const Tensors& in) { return Tensors{torch::conv2d(in[0], in[1], in[2], 1, 1, 1, 6)}; },
       1e-4},
      {"conv2d of each channel",
       {some({3, 12, 4, 4}), some({12, 1, 3, 3}), some({12})},
       [](const Tensors& in) { return Tensors{torch::conv2d(in[0], in[1], in[2], 1, 1, 1, 12)}; },
       1e-4},
      {"conv_transpose2d",
       {some({3, 4, 4, 4}), some({4, 5, 3, 3}), some({5})},
       [](const Tensors& in) { return Tensors{torch::conv_transpose2d(in[0], in[1], in[2], 2, 1, 1)}; },
       1e-4},
      {"conv1d",
       {some({3, 4, 7}), some({5, 4, 3}), some({5})},
       [](const Tensors& in) { return Tensors{torch::conv1d(in[0], in[1], in[2], 2, 1)}; },
       1e-4},
  };
}

std::vector<OperatorCase> planes() {
  const auto pictures = some({5, 3, 6, 6});
  return {
      {"max_pool2d", {pictures}, [](const Tensors& in) { return Tensors{torch::max_pool2d(in[0], 3, 2, 1)}; }},
      {"avg_pool2d", {pictures}, [](const Tensors& in) { return Tensors{torch::avg_pool2d(in[0], 2)}; }},
      {"adaptive_avg_pool2d",
       {pictures},
       [](const Tensors& in) {
         return Tensors{torch::adaptive_avg_pool2d(in[0], {4, 2})};
       }},
      {"adaptive_avg_pool2d to one place",
       {pictures},
       [](const Tensors& in) {
         return Tensors{torch::adaptive_avg_pool2d(in[0], {1, 1})};
       }},
      {"upsample_nearest2d",
       {pictures},
       [](const Tensors& in) {
         return Tensors{torch::upsample_nearest2d(in[0], {9, 12})};
       }},
      {"interpolate by a factor",
       {pictures},
       [](const Tensors& in) {
         return Tensors{F::interpolate(
             in[0], F::InterpolateFuncOptions().scale_factor(std::vector<double>{2.0, 2.0}).mode(torch::kNearest))};
       }},
      {"upsample_bilinear2d",
       {pictures},
       [](const Tensors& in) {
         return Tensors{torch::upsample_bilinear2d(in[0], {9, 12}, false)};
       }},
      {"pad",
       {pictures},
       [](const Tensors& in) {
         return Tensors{torch::constant_pad_nd(in[0], {1, 0, 0, 0, 1, 2})};
       }},
  };
}

std::vector<OperatorCase> norms() {
  // Values far from zero show a variance that was computed from sums of squares.
  const CaseInput pictures{.value = torch::randn({5, 3, 2, 3}) + 100};
  const auto mean = torch::randn({3});
  const auto variance = torch::rand({3}) + 0.5;
  const auto batch_norm = [](bool training) {
    return [training](const Tensors& in) {
      const auto output = torch::batch_norm(in[0], in[1], in[2], in[3], in[4], training, 0.3, 1e-5, false);
      return Tensors{output, in[3], in[4]};
    };
  };
  return {
      {"batch_norm in training",
       {pictures, some({3}), some({3}), fixed(mean), fixed(variance)},
       batch_norm(true),
       2e-4},
      {"batch_norm in evaluation",
       {pictures, some({3}), some({3}), fixed(mean), fixed(variance)},
       batch_norm(false),
       2e-4},
      {"batch_norm of fewer samples than ranks, without weights",
       {some({2, 5})},
       [](const Tensors& in) { return Tensors{torch::batch_norm(in[0], {}, {}, {}, {}, true, 0.1, 1e-5, false)}; },
       1e-4},
      {"layer_norm",
       {some({3, 5, 4}), some({4}), some({4})},
       [](const Tensors& in) { return Tensors{torch::layer_norm(in[0], {4}, in[1], in[2])}; },
       1e-4},
      {"layer_norm of two dimensions",
       {some({3, 5, 4}), some({5, 4})},
       [](const Tensors& in) {
         return Tensors{torch::layer_norm(in[0], {5, 4}, in[1])};
       },
       1e-4},
      {"group_norm",
       {some({3, 24, 2, 2}), some({24}), some({24})},
       [](const Tensors& in) { return Tensors{torch::group_norm(in[0], 12, in[1], in[2])}; },
       1e-4},
      {"instance_norm",
       {some({3, 4, 3, 2}), some({4}), some({4})},
       [](const Tensors& in) {
         return Tensors{torch::instance_norm(in[0], in[1], in[2], {}, {}, true, 0.1, 1e-5, false)};
       },
       1e-4},
  };
}

std::vector<OperatorCase> softmaxes() {
  std::vector<OperatorCase> cases;
  const auto values = some({3, 5, 6});
  for (std::int64_t dim = 0; dim < 3; ++dim) {
    const auto at = " along " + std::to_string(dim);
    cases.push_back({"softmax" + at, {values}, [=](const Tensors& in) { return Tensors{in[0].softmax(dim)}; }});
    cases.push_back({"log_softmax" + at, {values}, [=](const Tensors& in) { return Tensors{in[0].log_softmax(dim)}; }});
  }
  cases.push_back({"softmax of masked values", {some({4, 6})}, [](const Tensors& in) {
                     const auto mask = torch::ones({4, 6}, in[0].options().dtype(torch::kBool)).triu(1);
                     return Tensors{in[0].masked_fill(mask, -INFINITY).softmax(-1)};
                   }});
  return cases;
}

std::vector<OperatorCase> class_losses() {
  const auto logits = some({7, 5});
  const auto targets = torch::tensor({0, 4, 2, -100, 3, 1, 2});
  const auto weights = fixed(torch::rand({5}) + 0.5);
  std::vector<OperatorCase> cases;
  for (const auto reduction : {0, 1, 2}) {
    const auto as = " reduced as " + std::to_string(reduction);
    cases.push_back({"cross_entropy" + as, {logits, fixed(targets)}, [=](const Tensors& in) {
                       return Tensors{torch::cross_entropy_loss(in[0], in[1], {}, reduction)};
                     }});
    cases.push_back({"weighted nll_loss" + as, {logits, fixed(targets), weights}, [=](const Tensors& in) {
                       return Tensors{torch::nll_loss(in[0], in[1], in[2], reduction, 4)};
                     }});
    cases.back().inputs[1].value = torch::tensor({0, 4, 2, 0, 3, 1, 2});
    cases.push_back(
        {"weighted cross_entropy of pictures" + as,
         {some({3, 5, 2, 3}), fixed(torch::randint(5, {3, 2, 3}, torch::kLong)), weights},
         [=](const Tensors& in) { return Tensors{torch::cross_entropy_loss(in[0], in[1], in[2], reduction, 2)}; }});
  }
  cases.push_back({"cross_entropy, smoothed", {logits, fixed(targets)}, [](const Tensors& in) {
                     return Tensors{torch::cross_entropy_loss(in[0], in[1], {}, 1, -100, 0.1)};
                   }});
  cases.push_back({"cross_entropy of fewer classes than ranks",
                   {some({3, 2}), fixed(torch::tensor({1, 0, 1}))},
                   [](const Tensors& in) { return Tensors{torch::cross_entropy_loss(in[0], in[1])}; }});
  cases.push_back({"cross_entropy of one sample", {some({5}), fixed(torch::tensor(3))}, [](const Tensors& in) {
                     return Tensors{torch::cross_entropy_loss(in[0], in[1])};
                   }});
  return cases;
}

std::vector<OperatorCase> pointwise_losses() {
  const auto values = some({5, 3});
  const auto others = some({5, 3});
  const auto odds = fixed(torch::rand({5, 3}));
  std::vector<OperatorCase> cases;
  for (const auto reduction : {0, 1, 2}) {
    const auto as = " reduced as " + std::to_string(reduction);
    cases.push_back({"mse_loss" + as, {values, others}, [=](const Tensors& in) {
                       return Tensors{torch::mse_loss(in[0], in[1], reduction)};
                     }});
    cases.push_back({"smooth_l1_loss" + as, {values, others}, [=](const Tensors& in) {
                       return Tensors{torch::smooth_l1_loss(in[0], in[1], reduction, 0.5)};
                     }});
    cases.push_back({"huber_loss" + as, {values, others}, [=](const Tensors& in) {
                       return Tensors{torch::huber_loss(in[0], in[1], reduction, 0.5)};
                     }});
    cases.push_back({"l1_loss" + as, {values, others}, [=](const Tensors& in) {
                       return Tensors{torch::l1_loss(in[0], in[1], reduction)};
                     }});
    cases.push_back({"binary_cross_entropy" + as, {some({5, 3}), odds}, [=](const Tensors& in) {
                       return Tensors{torch::binary_cross_entropy(in[0].sigmoid(), in[1], {}, reduction)};
                     }});
    cases.push_back({"binary_cross_entropy_with_logits" + as,
                     {values, odds, fixed(torch::rand({3})), fixed(torch::rand({3}))},
                     [=](const Tensors& in) {
                       return Tensors{torch::binary_cross_entropy_with_logits(in[0], in[1], in[2], in[3], reduction)};
                     }});
    cases.push_back({"kl_div" + as, {values, odds}, [=](const Tensors& in) {
                       return Tensors{torch::kl_div(in[0].log_softmax(1), in[1], reduction)};
                     }});
  }
  return cases;
}

std::vector<OperatorCase> tables_and_products() {
  const auto indices = torch::tensor({{0, 6, 3}, {2, 2, 5}, {6, 1, 0}, {4, 4, 4}, {0, 3, 6}});
  return {
      {"embedding",
       {some({7, 3}), fixed(indices)},
       [](const Tensors& in) { return Tensors{torch::embedding(in[0], in[1])}; }},
      {"embedding with padding and gradients by frequency",
       {some({7, 3}), fixed(indices)},
       [](const Tensors& in) { return Tensors{torch::embedding(in[0], in[1], 2, true)}; }},
      {"embedding with fewer rows than ranks",
       {some({2, 3}), fixed(torch::tensor({1, 0, 1}))},
       [](const Tensors& in) { return Tensors{torch::embedding(in[0], in[1])}; }},
      {"linear of a batch of sequences",
       {some({3, 5, 4}), some({6, 4}), some({6})},
       [](const Tensors& in) { return Tensors{torch::linear(in[0], in[1], in[2])}; }},
      {"matmul of four dimensions",
       {some({3, 2, 4, 5}), some({3, 2, 5, 3})},
       [](const Tensors& in) { return Tensors{in[0].matmul(in[1])}; }},
      {"matmul, broadcast",
       {some({3, 1, 4, 5}), some({2, 5, 3})},
       [](const Tensors& in) { return Tensors{in[0].matmul(in[1])}; }},
      {"matmul with a vector",
       {some({3, 4, 5}), some({5})},
       [](const Tensors& in) { return Tensors{in[0].matmul(in[1])}; }},
      {"tensordot",
       {some({3, 4, 5}), some({5, 3, 2})},
       [](const Tensors& in) {
         return Tensors{torch::tensordot(in[0], in[1], {0, 2}, {1, 0})};
       }},
      {"attention", {some({3, 2, 4, 5}), some({3, 2, 4, 5}), some({3, 2, 4, 5})}, causal_attention},
      {"gelu", {some({5, 3})}, [](const Tensors& in) { return Tensors{torch::gelu(in[0])}; }},
  };
}

/// libtorch takes these apart; each of them is many operators.
std::vector<OperatorCase> put_together() {
  const auto lengths = std::vector<std::int64_t>{5, 4, 5};
  const auto label_lengths = std::vector<std::int64_t>{2, 1, 2};
  return {
      {"lstm",
       {some({3, 4, 5}), some({1, 4, 6}), some({1, 4, 6}), some({24, 5}), some({24, 6}), some({24}), some({24})},
       [](const Tensors& in) {
         const auto [output, hidden, cell] =
             torch::lstm(in[0], {in[1], in[2]}, {in[3], in[4], in[5], in[6]}, true, 1, 0.0, true, false, false);
         return Tensors{output, hidden, cell};
       },
       1e-4},
      {"gru",
       {some({3, 4, 5}), some({1, 4, 6}), some({18, 5}), some({18, 6}), some({18}), some({18})},
       [](const Tensors& in) {
         const auto [output, hidden] =
             torch::gru(in[0], in[1], {in[2], in[3], in[4], in[5]}, true, 1, 0.0, true, false, false);
         return Tensors{output, hidden};
       },
       1e-4},
      {"multi_head_attention",
       {some({3, 5, 8}), some({24, 8}), some({24}), some({8, 8}), some({8})},
       [](const Tensors& in) {
         const auto [output, weights] = F::multi_head_attention_forward(
             in[0], in[0], in[0],
             F::MultiheadAttentionForwardFuncOptions(8, 4, in[1], in[2], {}, {}, false, 0.0, in[3], in[4]));
         return Tensors{output, weights};
       },
       1e-4},
      {"ctc_loss",
       {some({5, 3, 4}), fixed(torch::tensor({{1, 2}, {3, 0}, {2, 2}}))},
       [=](const Tensors& in) { return Tensors{torch::ctc_loss(in[0].log_softmax(2), in[1], lengths, label_lengths)}; },
       1e-4},
      {"ctc_loss of targets one after the other, the longest on one rank",
       {some({6, 3, 4}), fixed(torch::tensor({1, 2, 3, 2, 3}))},
       [](const Tensors& in) {
         return Tensors{torch::ctc_loss(in[0].log_softmax(2), in[1], {6, 5, 4}, {1, 3, 1}, 0, at::Reduction::None)};
       },
       1e-4},
  };
}

}  // namespace

std::vector<OperatorCase> network_cases() {
  torch::manual_seed(3);
  std::vector<OperatorCase> all;
  for (const auto& family : {convolutions(), planes(), norms(), softmaxes(), class_losses(), pointwise_losses(),
                             tables_and_products(), put_together()}) {
    all.insert(all.end(), family.begin(), family.end());
  }
  return all;
}

}  // namespace lockstep::test
