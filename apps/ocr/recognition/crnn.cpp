// CRNN: a backbone that reduces the height to 1, two bidirectional LSTM layers (float32 even under autocast) and a
// linear layer; also the names of MindOCR's weights.
#include <apps/ocr/recognition/crnn.h>

#include <lockstep/base/error.h>

#include <fmt/ranges.h>

#include <array>
#include <utility>

namespace lockstep::ocr {
namespace {

torch::nn::LSTM both_directions(std::int64_t in, std::int64_t hidden) {
  return torch::nn::LSTM(torch::nn::LSTMOptions(in, hidden).num_layers(2).bidirectional(true));
}

}  // namespace

void describe(ConfigFields& fields, CrnnOptions& options) {
  fields.field("num_classes", options.num_classes, between(2, 1e6), "the dictionary's characters and the blank of CTC");
  fields.field("channels", options.channels, between(2, 1024),
               "of the first stage; the last one has eight times as many");
  fields.field("hidden", options.hidden, between(1, 8192), "of each direction of the two recurrent layers");
}

Crnn::Crnn(std::shared_ptr<WordBackbone> backbone, const CrnnOptions& options)
    : backbone_(register_module("backbone", std::move(backbone))),
      lstm_(register_module("lstm", both_directions(backbone_->out_channels(), options.hidden))),
      head_(register_module("head", torch::nn::Linear(2 * options.hidden, options.num_classes))) {}

torch::Tensor Crnn::forward(const torch::Tensor& pictures) {
  if (pictures.dim() != 4 || pictures.size(1) != 3 || !pictures.is_floating_point()) {
    fail(ErrorKind::config, "data.train_transforms",
         "CRNN reads pictures as floats of the shape [N, 3, 32, W], and these are {} [{}]; end the transforms with "
         "normalize and hwc2chw, with data.color=rgb",
         c10::toString(pictures.scalar_type()), fmt::join(pictures.sizes(), ", "));
  }
  const auto columns = backbone_->forward(pictures);
  if (columns.size(2) != 1 || columns.size(3) < 1) {
    fail(ErrorKind::config, "data.train_transforms",
         "CRNN reads pictures that are 32 high and at least 8 wide, and these are {} high and {} wide; resize them: "
         "resize: {{size: [32, 100]}}",
         pictures.size(2), pictures.size(3));
  }
  const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
  const auto sequence = columns.squeeze(2).permute({2, 0, 1}).to(torch::kFloat).contiguous();
  return head_(std::get<0>(lstm_(sequence)));
}

std::vector<train::Rename> Crnn::other_names() const {
  std::vector<train::Rename> rules = {{"neck.seq_encoder.", "lstm."}, {"head.dense1.", "head."}};
  for (int i = 1; i <= 7; ++i) {  // VGG
    rules.push_back({fmt::format("backbone.conv{}.conv.", i), fmt::format("backbone.conv{}.", i)});
    rules.push_back({fmt::format("backbone.conv{}.bn.", i), fmt::format("backbone.bn{}.", i)});
  }
  for (int i = 1; i <= 3; ++i) {  // ResNet: its beginning, and its blocks in one list
    rules.push_back({fmt::format("backbone.conv1_{}.conv.", i), fmt::format("backbone.conv{}.", i)});
    rules.push_back({fmt::format("backbone.conv1_{}.norm.", i), fmt::format("backbone.bn{}.", i)});
  }
  int block = 0;
  constexpr std::array<int, 4> kDepths = {3, 4, 6, 3};
  for (std::size_t stage = 0; stage < kDepths.size(); ++stage) {
    for (int i = 0; i < kDepths[stage]; ++i, ++block) {
      const auto theirs = fmt::format("backbone.block_list.{}.", block);
      const auto ours = fmt::format("backbone.layer{}.{}.", stage + 1, i);
      const int shortcut = stage == 0 ? 0 : 1;  // behind a pool
      rules.push_back({theirs + "conv0.conv.", ours + "conv1."});
      rules.push_back({theirs + "conv0.norm.", ours + "bn1."});
      rules.push_back({theirs + "conv1.conv.", ours + "conv2."});
      rules.push_back({theirs + "conv1.norm.", ours + "bn2."});
      rules.push_back({theirs + "short.conv.", fmt::format("{}downsample.{}.", ours, shortcut)});
      rules.push_back({theirs + "short.norm.", fmt::format("{}downsample.{}.", ours, shortcut + 1)});
    }
  }
  return rules;
}

std::shared_ptr<Crnn> crnn_resnet34(const CrnnOptions& options) {
  return std::make_shared<Crnn>(word_resnet34(options.channels), options);
}

std::shared_ptr<Crnn> crnn_vgg7(const CrnnOptions& options) {
  return std::make_shared<Crnn>(word_vgg7(options.channels), options);
}

}  // namespace lockstep::ocr
