// Linear layers of given widths with ReLU between them, over flattened input.
#include <lockstep/models/picture_models.h>

#include <lockstep/base/error.h>

#include <fmt/ranges.h>

#include <memory>

namespace lockstep::models {

Mlp::Mlp(std::int64_t in_features, const std::vector<std::int64_t>& hidden, std::int64_t num_classes)
    : in_features_(in_features) {
  auto sizes = hidden;
  sizes.push_back(num_classes);
  std::int64_t inputs = in_features;
  for (const auto outputs : sizes) {
    const auto name = fmt::format("fc{}", layers_.size() + 1);
    layers_.push_back(register_module(name, torch::nn::Linear(inputs, outputs)));
    inputs = outputs;
  }
}

torch::Tensor Mlp::forward(const torch::Tensor& pictures) {
  auto x = pictures.dim() > 2 ? pictures.flatten(1) : pictures;
  if (x.dim() != 2 || x.size(1) != in_features_) {
    fail(ErrorKind::invalid_argument, "models",
         "mlp was built for {} values a sample; this batch has shape [{}]; change the data or the model's in_features",
         in_features_, fmt::join(pictures.sizes(), ", "));
  }
  x = layers_.front()(x);
  for (std::size_t i = 1; i < layers_.size(); ++i) x = layers_[i](x.relu());
  return x;
}

const PictureModel kMlp{.name = "mlp",
                        .doc = "linear layers with the widths model.hidden, for pictures of any size",
                        .features = 0,
                        .has_hidden = true,
                        .has_stem = false,
                        .build = [](const ModelSpec& spec) -> std::shared_ptr<Network> {
                          return std::make_shared<Mlp>(spec.in_features, spec.hidden, spec.num_classes);
                        }};

}  // namespace lockstep::models
