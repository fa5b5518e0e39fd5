#include "cases.h"

#include <lockstep/base/error.h>
#include <lockstep/kernels/tuning.h>
#include <lockstep/models/gpt.h>
#include <lockstep/models/registry.h>
#include <lockstep/train/modes/forward.h>

namespace lockstep::bench {
namespace {

Case make_toy(const at::Device& device) {
  torch::nn::Sequential net(torch::nn::Linear(10, 10), torch::nn::ReLU(), torch::nn::Linear(10, 5));
  net->to(device);
  const auto inputs = torch::randn({20, 10}).to(device);
  const auto targets = torch::randn({20, 5}).to(device);
  Case result{net.ptr(), inputs, {}, 20, 0.001, 0.0};
  result.loss_of = [net, targets](const at::Tensor& in) mutable { return torch::mse_loss(net->forward(in), targets); };
  return result;
}

// GPT-2 of 124 million parameters (its table of tokens filled up to a multiple of 64), on random tokens.
Case make_gpt2(std::int64_t batch, const Precision& precision, const at::Device& device) {
  constexpr std::int64_t kTokens = 1024;
  models::GptShape shape;
  shape.vocabulary = 50304;
  shape.context = kTokens;
  shape.layers = 12;
  shape.heads = 12;
  shape.width = 768;
  const auto model = models::gpt(shape);
  model->to(device);
  const auto tokens = torch::randint(shape.vocabulary, {batch, kTokens}, torch::kLong).to(device);
  const auto targets = torch::randint(shape.vocabulary, {batch * kTokens}, torch::kLong).to(device);
  Case result{model, tokens, {}, batch, 0.01, 0.9};
  result.loss_of = [model, targets, bfloat16 = precision.bfloat16, on_cuda = device.is_cuda()](const at::Tensor& in) {
    const train::Autocast autocast(bfloat16 ? std::optional(at::kBFloat16) : std::nullopt, on_cuda);
    return torch::nn::functional::cross_entropy(model->forward(in).flatten(0, 1), targets);
  };
  return result;
}

Case make_classification(const std::string& model, std::int64_t batch, std::vector<std::int64_t> picture,
                         const Precision& precision, const at::Device& device) {
  models::ModelSpec spec;
  spec.name = model;
  spec.num_classes = 10;
  const auto classifier = models::make_classifier(spec);
  picture.insert(picture.begin(), batch);
  classifier.module->to(device);
  auto inputs = torch::randn(picture).to(device);
  const auto targets = torch::randint(10, {batch}, torch::kLong).to(device);
  if (precision.channels_last) {
    inputs = to_channels_last(inputs);
    to_channels_last(*classifier.module);
  }
  Case result{classifier.module, inputs, {}, batch, 0.01, 0.9};
  result.loss_of = [classifier, targets, bfloat16 = precision.bfloat16,
                    on_cuda = device.is_cuda()](const at::Tensor& in) {
    at::Tensor logits;
    {
      const train::Autocast autocast(bfloat16 ? std::optional(at::kBFloat16) : std::nullopt, on_cuda);
      logits = classifier.forward(in);
    }
    return torch::nn::functional::cross_entropy(logits.to(at::kFloat), targets);
  };
  return result;
}

}  // namespace

Case make_case(const std::string& name, const Precision& precision, const at::Device& device, std::int64_t batch) {
  const auto make = [&](const std::string& model, std::int64_t own_batch, std::vector<std::int64_t> picture) {
    return make_classification(model, batch > 0 ? batch : own_batch, std::move(picture), precision, device);
  };
  if (name == "toy") return make_toy(device);
  if (name == "mlp") return make("mlp", 100, {1, 28, 28});
  if (name == "resnet20_32") return make("resnet20", 128, {3, 32, 32});
  if (name == "resnet18_32") return make("resnet18", 64, {3, 32, 32});
  if (name == "resnet50_32") return make("resnet50", 32, {3, 32, 32});
  if (name == "resnet50_224") return make("resnet50", 8, {3, 224, 224});
  if (name == "gpt2_124m") return make_gpt2(batch > 0 ? batch : 16, precision, device);
  fail(ErrorKind::invalid_argument, "bench", "unknown case \"{}\"", name);
}

}  // namespace lockstep::bench
