// DBNet: a ResNet, a feature pyramid and two heads; the threshold head runs in training only. Also the names of
// MindOCR's and MindCV's weights.
#include <apps/ocr/detection/dbnet.h>

#include <lockstep/base/error.h>
#include <lockstep/models/network.h>
#include <lockstep/train/named_tensors.h>

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>

namespace lockstep::ocr {
namespace {

using torch::Tensor;
using torch::nn::BatchNorm2d;
using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::ConvTranspose2d;
using torch::nn::ConvTranspose2dOptions;
using torch::nn::Sequential;

constexpr std::int64_t kStemChannels = 64;
constexpr std::size_t kStages = 4;
constexpr std::int64_t kCoarsest = 32;  // pixels of the picture per pixel of the last stage

struct Shape {
  models::Block block;
  std::array<std::int64_t, kStages> depths;
};

Shape shape_of(std::int64_t depth) {
  if (depth == 18) return {models::Block::basic, {2, 2, 2, 2}};
  if (depth == 50) return {models::Block::bottleneck, {3, 4, 6, 3}};
  fail(ErrorKind::config, "model.depth", "is {}; the ResNet of dbnet has a depth of 18 or 50", depth);
}

Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t kernel) {
  return Conv2d(Conv2dOptions(in, out, kernel).padding(kernel / 2).bias(false));
}

/// Scales a map from a quarter of the picture's sides to the full size.
Sequential make_head(std::int64_t channels) {
  const auto inner = channels / 4;
  return Sequential(conv(channels, inner, 3), BatchNorm2d(inner), torch::nn::ReLU(),
                    ConvTranspose2d(ConvTranspose2dOptions(inner, inner, 2).stride(2)), BatchNorm2d(inner),
                    torch::nn::ReLU(), ConvTranspose2d(ConvTranspose2dOptions(inner, 1, 2).stride(2)));
}

/// The shortcuts of MindCV's ResNet.
const train::Rename kDownsampleOfMindcv = {"*.down_sample.*", "*.downsample.*"};

/// He's uniform initialization for layers without pretrained weights; biases 0. In a transposed convolution whose
/// stride is its kernel, each pixel depends on one pixel of all channels. torch::nn::init would use the number of
/// outputs, and the first maps would have only the values 0 and 1, which have no gradient.
void initialize(torch::nn::Module& module) {
  for (const auto& part : module.modules(/*include_self=*/false)) {
    if (auto* plain = part->as<Conv2d>()) torch::nn::init::kaiming_uniform_(plain->weight);
    if (auto* transposed = part->as<ConvTranspose2d>()) {
      const double bound = std::sqrt(6.0 / static_cast<double>(transposed->weight.size(0)));
      torch::nn::init::uniform_(transposed->weight, -bound, bound);
      torch::nn::init::zeros_(transposed->bias);
    }
  }
}

Tensor enlarged(const Tensor& coarse, const Tensor& fine) {
  return torch::upsample_nearest2d(coarse, fine.sizes().slice(2));
}

void require_sides(const Tensor& pictures) {
  if (pictures.dim() == 4 && pictures.size(1) == 3 && pictures.size(2) % kCoarsest == 0 &&
      pictures.size(3) % kCoarsest == 0) {
    return;
  }
  fail(ErrorKind::invalid_argument, "dbnet",
       "takes pictures [N, 3, H, W] with sides that are multiples of {}, not [{}]; let text_resize or text_random_crop "
       "make them so",
       kCoarsest, fmt::join(pictures.sizes(), ", "));
}

}  // namespace

void describe(ConfigFields& fields, DbnetOptions& options) {
  fields.field("backbone", options.backbone, one_of({"resnet", "mobilenet_v3"}),
               "the network that computes features of the pictures");
  fields.field("depth", options.depth, between(18, 50), "layers of the ResNet: 18 or 50");
  fields.field("width", options.width, between(0.1, 4),
               "of mobilenet_v3, the large one: its numbers of channels to those of the paper");
  fields.field("channels", options.channels, between(4, 4096), "of the feature pyramid, a multiple of 4");
  fields.field("k", options.k, between(1, 1000), "steepness of the approximate binary map");
  fields.field(
      "backbone_weights", options.backbone_weights, a_path(),
      "weights of the backbone to begin with, with torchvision's names (ResNets) or MindCV's: safetensors, .pth "
      "of torch.save or .ckpt of MindSpore; null: random ones");
}

Dbnet::Dbnet(const DbnetOptions& options) : options_(options) {
  if (options.channels % 4 != 0) {
    fail(ErrorKind::config, "model.channels", "is {}; it has to be a multiple of 4", options.channels);
  }
  if (options.backbone == "mobilenet_v3") {
    mobile_ = register_module("backbone", std::make_shared<MobileNetV3>(options.width));
    backbone_ = mobile_;
    widths_ = mobile_->channels();
  } else {
    build_resnet();
  }
  const auto fpn = register_module("fpn", std::make_shared<torch::nn::Module>());
  for (std::size_t i = 0; i < kStages; ++i) {
    laterals_.push_back(fpn->register_module(fmt::format("lateral{}", i + 2), conv(widths_[i], options.channels, 1)));
    outs_.push_back(fpn->register_module(fmt::format("out{}", i + 2), conv(options.channels, options.channels / 4, 3)));
  }
  const auto heads = register_module("head", std::make_shared<torch::nn::Module>());
  segm_ = heads->register_module("segm", make_head(options.channels));
  thresh_ = heads->register_module("thresh", make_head(options.channels));
  initialize(*fpn);
  initialize(*heads);
}

void Dbnet::build_resnet() {
  const auto shape = shape_of(options_.depth);
  backbone_ = register_module("backbone", std::make_shared<torch::nn::Module>());
  stem_ =
      backbone_->register_module("conv1", Conv2d(Conv2dOptions(3, kStemChannels, 7).stride(2).padding(3).bias(false)));
  stem_norm_ = backbone_->register_module("bn1", BatchNorm2d(kStemChannels));
  for (std::size_t i = 0; i < kStages; ++i) {
    widths_[i] = (kStemChannels << i) * models::expansion(shape.block);
    stages_.push_back(backbone_->register_module(
        fmt::format("layer{}", i + 1), models::residual_stage({.block = shape.block,
                                                               .shortcut = models::Shortcut::projection,
                                                               .in_channels = i == 0 ? kStemChannels : widths_[i - 1],
                                                               .channels = kStemChannels << i,
                                                               .depth = shape.depths[i],
                                                               .stride = i == 0 ? 1 : 2})));
  }
  models::initialize_residual(*backbone_);
}

std::array<Tensor, kStages> Dbnet::levels(const Tensor& pictures) {
  if (mobile_) return mobile_->levels(pictures);
  std::array<Tensor, kStages> levels;
  auto x = torch::max_pool2d(stem_norm_(stem_(pictures)).relu_(), /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
  for (std::size_t i = 0; i < kStages; ++i) {
    x = stages_[i]->forward(x);
    levels[i] = x;
  }
  return levels;
}

Tensor Dbnet::features(const Tensor& pictures) {
  auto levels = this->levels(pictures);
  for (std::size_t i = 0; i < kStages; ++i) levels[i] = laterals_[i](levels[i]);
  for (std::size_t i = kStages - 1; i > 0; --i) levels[i - 1] = levels[i - 1] + enlarged(levels[i], levels[i - 1]);
  std::vector<Tensor> parts;
  for (std::size_t i = kStages; i > 0; --i) {
    const auto out = outs_[i - 1](levels[i - 1]);
    parts.push_back(i == 1 ? out : enlarged(out, levels[0]));
  }
  return torch::cat(parts, 1);
}

// Sigmoids use float32 under autocast, too.
Tensor Dbnet::head(Sequential& branch, const Tensor& features) {
  const auto x = branch->forward(features);
  return x.to(c10::promoteTypes(x.scalar_type(), torch::kFloat)).sigmoid().squeeze(1);
}

TextMaps Dbnet::forward(const Tensor& pictures) {
  require_sides(pictures);
  const auto x = features(pictures);
  TextMaps maps{.probability = head(segm_, x), .threshold = {}, .binary = {}};
  if (!is_training()) return maps;
  maps.threshold = head(thresh_, x);
  maps.binary = torch::sigmoid(options_.k * (maps.probability - maps.threshold));
  return maps;
}

std::vector<train::Rename> Dbnet::other_names() const {
  std::vector<train::Rename> rules = {kDownsampleOfMindcv};
  for (std::size_t i = 0; i < kStages; ++i) {
    rules.push_back({fmt::format("neck.unify_channels.{}.", i), fmt::format("fpn.lateral{}.", i + 2)});
    rules.push_back({fmt::format("neck.out.{}.", i), fmt::format("fpn.out{}.", i + 2)});
  }
  return rules;
}

std::vector<std::string> Dbnet::load_backbone() {
  if (!options_.backbone_weights) return {};
  // torchvision's files also have a classifier, and older files lack counts of batches.
  torch::nn::Module view;
  for (const auto& child : backbone_->named_children()) view.register_module(child.key(), child.value());
  train::WeightNames names{.except = {"fc.*"}, .theirs = {kDownsampleOfMindcv, {"classifier.", "fc."}}};
  if (mobile_) {
    const auto classifier = view.register_module("classifier", std::make_shared<torch::nn::Module>());
    for (const auto* layer : {"0", "3"}) classifier->register_module(layer, torch::nn::Linear(1, 1));
    names = {.except = {"classifier.*"}};
  } else {
    view.register_module("fc", torch::nn::Linear(1, 1));
  }
  try {
    auto remarks = train::load_weights(view, *options_.backbone_weights, names);
    remarks.insert(remarks.begin(),
                   fmt::format("the backbone begins with the weights in {}", *options_.backbone_weights));
    return remarks;
  } catch (const Error& error) {
    throw Error(ErrorKind::config, "model.backbone_weights", error.message(), error.position());
  }
}

}  // namespace lockstep::ocr
