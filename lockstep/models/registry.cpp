#include <lockstep/models/registry.h>

#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/models/lenet.h>
#include <lockstep/models/mlp.h>
#include <lockstep/models/network.h>
#include <lockstep/models/resnet.h>
#include <lockstep/models/resnet_cifar.h>
#include <lockstep/models/vgg.h>

#include <fmt/ranges.h>

namespace lockstep::models {
namespace {

using Builder = std::shared_ptr<Network> (*)(const ModelSpec&);

struct Entry {
  std::string_view name;
  Builder build;
};

constexpr Entry kEntries[] = {
    {"resnet18",
     [](const ModelSpec& spec) -> std::shared_ptr<Network> { return resnet18(spec.num_classes, spec.in_channels); }},
    {"resnet34",
     [](const ModelSpec& spec) -> std::shared_ptr<Network> { return resnet34(spec.num_classes, spec.in_channels); }},
    {"resnet50",
     [](const ModelSpec& spec) -> std::shared_ptr<Network> { return resnet50(spec.num_classes, spec.in_channels); }},
    {"resnet20",
     [](const ModelSpec& spec) -> std::shared_ptr<Network> { return resnet20(spec.num_classes, spec.in_channels); }},
    {"mlp",
     [](const ModelSpec& spec) -> std::shared_ptr<Network> {
       return std::make_shared<Mlp>(spec.in_features, spec.hidden, spec.num_classes);
     }},
    {"lenet5",
     [](const ModelSpec& spec) -> std::shared_ptr<Network> { return lenet5(spec.num_classes, spec.in_channels); }},
    {"vgg11",
     [](const ModelSpec& spec) -> std::shared_ptr<Network> {
       return vgg11(spec.num_classes, spec.in_channels, spec.hidden);
     }},
};

void require_positive(std::int64_t value, std::string_view field) {
  if (value >= 1) return;
  fail(ErrorKind::invalid_argument, "models", "{} must be at least 1; it is {}", field, value);
}

void check(const ModelSpec& spec) {
  require_positive(spec.num_classes, "num_classes");
  require_positive(spec.in_channels, "in_channels");
  require_positive(spec.in_features, "in_features");
  for (const auto size : spec.hidden) require_positive(size, "each of hidden");
}

}  // namespace

at::Tensor Classifier::forward(const at::Tensor& pictures) const {
  auto* network = dynamic_cast<Network*>(module.get());
  if (network == nullptr) {
    fail(ErrorKind::invalid_argument, "models", "a Classifier's module must come from make_classifier");
  }
  return network->forward(pictures);
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& entry : kEntries) names.emplace_back(entry.name);
  return names;
}

Classifier make_classifier(const ModelSpec& spec) {
  check(spec);
  for (const auto& entry : kEntries) {
    if (entry.name == spec.name) return {entry.build(spec)};
  }
  const auto names = model_names();
  fail(ErrorKind::invalid_argument, "models", "there is no model \"{}\"{}; known are {}", spec.name,
       did_you_mean(spec.name, names), fmt::join(names, ", "));
}

}  // namespace lockstep::models
