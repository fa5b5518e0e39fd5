#include "cases.h"

#include <lockstep/base/error.h>
#include <lockstep/models/registry.h>

namespace lockstep::bench {
namespace {

Case make_toy() {
  torch::nn::Sequential net(torch::nn::Linear(10, 10), torch::nn::ReLU(), torch::nn::Linear(10, 5));
  const auto inputs = torch::randn({20, 10});
  const auto targets = torch::randn({20, 5});
  Case result{net.ptr(), {}, 20, 0.001, 0.0};
  result.loss = [net, inputs, targets]() mutable { return torch::mse_loss(net->forward(inputs), targets); };
  return result;
}

Case make_classification(const std::string& model, std::int64_t batch, std::vector<std::int64_t> picture,
                         bool bfloat16) {
  models::ModelSpec spec;
  spec.name = model;
  spec.num_classes = 10;
  const auto classifier = models::make_classifier(spec);
  picture.insert(picture.begin(), batch);
  auto inputs = torch::randn(picture);
  const auto targets = torch::randint(10, {batch}, torch::kLong);
  if (bfloat16) {
    inputs = inputs.contiguous(at::MemoryFormat::ChannelsLast);
    for (auto& parameter : classifier.module->parameters()) {
      if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
    }
  }
  Case result{classifier.module, {}, batch, 0.01, 0.9};
  result.loss = [classifier, inputs, targets] {
    return torch::nn::functional::cross_entropy(classifier.forward(inputs), targets);
  };
  return result;
}

}  // namespace

Case make_case(const std::string& name, bool bfloat16) {
  if (name == "toy") return make_toy();
  if (name == "mlp") return make_classification("mlp", 100, {1, 28, 28}, bfloat16);
  if (name == "resnet18_32") return make_classification("resnet18", 64, {3, 32, 32}, bfloat16);
  if (name == "resnet50_32") return make_classification("resnet50", 32, {3, 32, 32}, bfloat16);
  if (name == "resnet50_224") return make_classification("resnet50", 8, {3, 224, 224}, bfloat16);
  fail(ErrorKind::invalid_argument, "bench", "unknown case \"{}\"", name);
}

}  // namespace lockstep::bench
