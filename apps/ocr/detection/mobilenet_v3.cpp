// MobileNetV3 large as a backbone: inverted residual blocks with squeeze and excitation, and four feature maps.
#include <apps/ocr/detection/mobilenet_v3.h>

#include <lockstep/models/network.h>

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace lockstep::ocr {

/// One block, in the paper's table.
struct MobileShape {
  std::int64_t kernel;
  std::int64_t expanded;
  std::int64_t out;
  bool squeezes;
  bool hard_swish;  // else ReLU
  std::int64_t stride;
};

namespace {

using torch::Tensor;
using torch::nn::BatchNorm2d;
using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;

constexpr std::array<MobileShape, 15> kLarge = {{{3, 16, 16, false, false, 1},
                                                 {3, 64, 24, false, false, 2},
                                                 {3, 72, 24, false, false, 1},
                                                 {5, 72, 40, true, false, 2},
                                                 {5, 120, 40, true, false, 1},
                                                 {5, 120, 40, true, false, 1},
                                                 {3, 240, 80, false, true, 2},
                                                 {3, 200, 80, false, true, 1},
                                                 {3, 184, 80, false, true, 1},
                                                 {3, 184, 80, false, true, 1},
                                                 {3, 480, 112, true, true, 1},
                                                 {3, 672, 112, true, true, 1},
                                                 {5, 672, 160, true, true, 2},
                                                 {5, 960, 160, true, true, 1},
                                                 {5, 960, 160, true, true, 1}}};
constexpr std::int64_t kStemOut = 16, kLastFactor = 6;
/// A scale ends after each of these blocks; the last scale ends after the last convolution.
constexpr std::array<std::size_t, 3> kScaleEnds = {2, 5, 11};

Conv2d plain_conv(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride, bool bias) {
  return Conv2d(Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(bias));
}

}  // namespace

/// Expansion, one filter for each channel, squeeze and excitation, projection.
class MobileBlock : public torch::nn::Module {
 public:
  MobileBlock(std::int64_t in, std::int64_t expanded, std::int64_t out, const MobileShape& shape)
      : shape_(shape), adds_(shape.stride == 1 && in == out) {
    const auto layers = register_module("layers", std::make_shared<torch::nn::Module>());
    int next = 0;
    const auto add = [&](const auto& module) { return layers->register_module(fmt::format("{}", next++), module); };
    expand_ = add(plain_conv(in, expanded, 1, 1, false));
    expand_norm_ = add(BatchNorm2d(expanded));
    ++next;  // the activation, which has no weights
    const auto padding = shape.stride == 1 ? shape.kernel / 2 : 0;
    depth_ = add(Conv2d(Conv2dOptions(expanded, expanded, shape.kernel)
                            .stride(shape.stride)
                            .padding(padding)
                            .groups(expanded)
                            .bias(false)));
    depth_norm_ = add(BatchNorm2d(expanded));
    ++next;
    if (shape.squeezes) {
      const auto squeeze = add(std::make_shared<torch::nn::Module>());
      reduce_ = squeeze->register_module("conv_reduce", plain_conv(expanded, expanded / 4, 1, 1, true));
      restore_ = squeeze->register_module("conv_expand", plain_conv(expanded / 4, expanded, 1, 1, true));
    }
    project_ = add(plain_conv(expanded, out, 1, 1, false));
    project_norm_ = add(BatchNorm2d(out));
  }

  Tensor forward(const Tensor& x) {
    auto y = active(expand_norm_(expand_(x)));
    if (shape_.stride == 2) {  // sides are even
      const auto before = (shape_.kernel - 2) / 2, behind = shape_.kernel - 2 - before;
      y = torch::constant_pad_nd(y, {before, behind, before, behind});
    }
    y = active(depth_norm_(depth_(y)));
    if (reduce_) y = y * torch::hardsigmoid(restore_(reduce_(y.mean({2, 3}, /*keepdim=*/true)).relu_()));
    y = project_norm_(project_(y));
    return adds_ ? x + y : y;
  }

 private:
  Tensor active(const Tensor& x) const { return shape_.hard_swish ? torch::hardswish(x) : torch::relu(x); }

  MobileShape shape_;
  bool adds_;
  Conv2d expand_ = nullptr, depth_ = nullptr, reduce_ = nullptr, restore_ = nullptr, project_ = nullptr;
  BatchNorm2d expand_norm_ = nullptr, depth_norm_ = nullptr, project_norm_ = nullptr;
};

std::int64_t mobile_channels(double channels) {
  constexpr std::int64_t kUnit = 8;
  const auto rounded = std::max(kUnit, static_cast<std::int64_t>(channels + kUnit / 2.0) / kUnit * kUnit);
  return static_cast<double>(rounded) < 0.9 * channels ? rounded + kUnit : rounded;
}

MobileNetV3::MobileNetV3(double width) {
  const auto features = register_module("features", std::make_shared<torch::nn::Module>());
  const auto of = [width](std::int64_t channels) { return mobile_channels(static_cast<double>(channels) * width); };
  auto in = of(kStemOut);
  stem_ = features->register_module("0", plain_conv(3, in, 3, 2, false));
  stem_norm_ = features->register_module("1", BatchNorm2d(in));
  int next = 3;  // 2 is the activation
  std::size_t scale = 0;
  for (std::size_t i = 0; i < kLarge.size(); ++i) {
    const auto& shape = kLarge[i];
    const auto out = of(shape.out);
    blocks_.push_back(features->register_module(fmt::format("{}", next++),
                                                std::make_shared<MobileBlock>(in, of(shape.expanded), out, shape)));
    in = out;
    if (scale < kScaleEnds.size() && i == kScaleEnds[scale]) channels_[scale++] = out;
  }
  const auto last = kLastFactor * in;
  last_ = features->register_module(fmt::format("{}", next++), plain_conv(in, last, 1, 1, false));
  last_norm_ = features->register_module(fmt::format("{}", next), BatchNorm2d(last));
  channels_[scale] = last;
  models::initialize_residual(*this);
  const torch::NoGradGuard no_grad;
  for (const auto& part : modules(/*include_self=*/false)) {
    auto* convolution = part->as<Conv2d>();
    if (convolution != nullptr && convolution->bias.defined()) convolution->bias.zero_();
  }
}

std::array<Tensor, 4> MobileNetV3::levels(const Tensor& pictures) {
  std::array<Tensor, 4> levels;
  std::size_t scale = 0;
  auto x = torch::hardswish(stem_norm_(stem_(pictures)));
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    x = blocks_[i]->forward(x);
    if (scale < kScaleEnds.size() && i == kScaleEnds[scale]) levels[scale++] = x;
  }
  levels[scale] = torch::hardswish(last_norm_(last_(x)));
  return levels;
}

}  // namespace lockstep::ocr
