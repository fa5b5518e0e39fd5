// Basic and bottleneck blocks with three kinds of shortcut (projection, padding, pooled), and their initialization.
#include <lockstep/kernels/tuning.h>
#include <lockstep/models/network.h>

#include <utility>

namespace lockstep::models {
namespace {

using torch::Tensor;
using torch::nn::BatchNorm2d;
using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::Sequential;

/// The strides over rows and columns.
using Stride = torch::ExpandingArray<2>;

Conv2d conv1x1(std::int64_t in_channels, std::int64_t out_channels, Stride stride = 1) {
  return Conv2d(Conv2dOptions(in_channels, out_channels, 1).stride(stride).bias(false));
}

/// The shortcut; an empty holder means the identity.
Tensor shortcut_of(Sequential& downsample, const Tensor& x) { return downsample ? downsample->forward(x) : x; }

class BasicBlock : public torch::nn::Module, public Recomputable {
 public:
  BasicBlock(std::int64_t in_channels, std::int64_t channels, Stride stride, Sequential downsample)
      : conv1_(register_module("conv1", conv3x3(in_channels, channels, stride))),
        bn1_(register_module("bn1", BatchNorm2d(channels))),
        conv2_(register_module("conv2", conv3x3(channels, channels))),
        bn2_(register_module("bn2", BatchNorm2d(channels))),
        downsample_(std::move(downsample)) {
    if (downsample_) register_module("downsample", downsample_);
  }

  Tensor forward(const Tensor& in) {
    return recomputed(*this, in, [this](const Tensor& x) {
      auto out = bn1_(conv1_(x)).relu_();
      out = bn2_(conv2_(out));
      out += shortcut_of(downsample_, x);
      return out.relu_();
    });
  }

 private:
  Conv2d conv1_;
  BatchNorm2d bn1_;
  Conv2d conv2_;
  BatchNorm2d bn2_;
  Sequential downsample_;
};

class Bottleneck : public torch::nn::Module, public Recomputable {
 public:
  Bottleneck(std::int64_t in_channels, std::int64_t channels, Stride stride, Sequential downsample)
      : conv1_(register_module("conv1", conv1x1(in_channels, channels))),
        bn1_(register_module("bn1", BatchNorm2d(channels))),
        conv2_(register_module("conv2", conv3x3(channels, channels, stride))),
        bn2_(register_module("bn2", BatchNorm2d(channels))),
        conv3_(register_module("conv3", conv1x1(channels, channels * expansion(Block::bottleneck)))),
        bn3_(register_module("bn3", BatchNorm2d(channels * expansion(Block::bottleneck)))),
        downsample_(std::move(downsample)) {
    if (downsample_) register_module("downsample", downsample_);
  }

  Tensor forward(const Tensor& in) {
    return recomputed(*this, in, [this](const Tensor& x) {
      auto out = bn1_(conv1_(x)).relu_();
      out = bn2_(conv2_(out)).relu_();
      out = bn3_(conv3_(out));
      out += shortcut_of(downsample_, x);
      return out.relu_();
    });
  }

 private:
  Conv2d conv1_;
  BatchNorm2d bn1_;
  Conv2d conv2_;
  BatchNorm2d bn2_;
  Conv2d conv3_;
  BatchNorm2d bn3_;
  Sequential downsample_;
};

/// Option A: no parameters, so that plain and residual networks have the same number of parameters.
class PaddingShortcut : public torch::nn::Module {
 public:
  PaddingShortcut(std::int64_t new_channels, Stride stride) : new_channels_(new_channels), stride_(stride) {}

  Tensor forward(const Tensor& x) {
    auto pixels = x.slice(2, 0, torch::nullopt, (*stride_)[0]).slice(3, 0, torch::nullopt, (*stride_)[1]);
    return torch::constant_pad_nd(pixels, {0, 0, 0, 0, 0, new_channels_});
  }

 private:
  std::int64_t new_channels_;
  Stride stride_;
};

Stride stride_of(const StageShape& shape) { return {shape.stride, shape.column_stride.value_or(shape.stride)}; }

Sequential pooled_shortcut(const StageShape& shape, std::int64_t out_channels) {
  const auto stride = stride_of(shape);
  Sequential layers;
  if ((*stride)[0] > 1 || (*stride)[1] > 1) {
    layers->push_back(torch::nn::AvgPool2d(torch::nn::AvgPool2dOptions(stride).stride(stride).ceil_mode(true)));
  }
  layers->push_back(conv1x1(shape.in_channels, out_channels));
  layers->push_back(BatchNorm2d(out_channels));
  return layers;
}

Sequential make_shortcut(const StageShape& shape) {
  const auto out_channels = shape.channels * expansion(shape.block);
  if (shape.shortcut == Shortcut::pooled) return pooled_shortcut(shape, out_channels);
  const auto stride = stride_of(shape);
  if ((*stride)[0] == 1 && (*stride)[1] == 1 && shape.in_channels == out_channels) return Sequential(nullptr);
  if (shape.shortcut == Shortcut::padding) {
    return Sequential(std::make_shared<PaddingShortcut>(out_channels - shape.in_channels, stride));
  }
  return Sequential(conv1x1(shape.in_channels, out_channels, stride), BatchNorm2d(out_channels));
}

template <typename BlockModule>
Sequential stack(const StageShape& shape) {
  Sequential stage;
  // The shortcut is initialized before the block, which is torchvision's order of random numbers, so that weights are
  // equal.
  auto shortcut = make_shortcut(shape);
  stage->push_back(std::make_shared<BlockModule>(shape.in_channels, shape.channels, stride_of(shape), shortcut));
  for (std::int64_t i = 1; i < shape.depth; ++i) {
    const auto in_channels = shape.channels * expansion(shape.block);
    stage->push_back(std::make_shared<BlockModule>(in_channels, shape.channels, 1, Sequential(nullptr)));
  }
  return stage;
}

}  // namespace

std::int64_t expansion(Block block) { return block == Block::bottleneck ? 4 : 1; }

Conv2d conv3x3(std::int64_t in_channels, std::int64_t out_channels, torch::ExpandingArray<2> stride) {
  return Conv2d(Conv2dOptions(in_channels, out_channels, 3).stride(stride).padding(1).bias(false));
}

Sequential residual_stage(const StageShape& shape) {
  return shape.block == Block::basic ? stack<BasicBlock>(shape) : stack<Bottleneck>(shape);
}

void initialize_residual(torch::nn::Module& module) {
  for (const auto& part : module.modules(/*include_self=*/false)) {
    if (auto* conv = part->as<Conv2d>()) {
      torch::nn::init::kaiming_normal_(conv->weight, 0.0, torch::kFanOut, torch::kReLU);
    } else if (auto* norm = part->as<BatchNorm2d>()) {
      torch::nn::init::ones_(norm->weight);
      torch::nn::init::zeros_(norm->bias);
    }
  }
}

}  // namespace lockstep::models
