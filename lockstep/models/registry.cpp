// The table of picture classifiers by name, with checks of sizes and memory before one is built; and the table of a
// module's parameters and buffers as text, where shared tensors are counted once.
#include <lockstep/base/available_memory.h>
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/text.h>
#include <lockstep/models/picture_models.h>
#include <lockstep/models/registry.h>

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <unordered_set>

namespace lockstep::models {
namespace {

constexpr std::array kModels{&kResNet18, &kResNet34, &kResNet50, &kResNet20, &kMlp, &kLeNet5, &kVgg11};

// Error(invalid_argument) when linear layers, whose sizes the user chooses, do not fit into memory. Otherwise libtorch
// would throw an unclear error, or the kernel would kill the process at the first write.
void require_memory(const PictureModel& entry, const ModelSpec& spec) {
  auto widths = entry.has_hidden ? spec.hidden : std::vector<std::int64_t>();
  widths.push_back(spec.num_classes);
  auto inputs = static_cast<double>(entry.features > 0 ? entry.features : spec.in_features);
  double bytes = 0;
  for (const auto width : widths) {
    const auto outputs = static_cast<double>(width);
    bytes += (inputs + 1) * outputs * sizeof(float);
    inputs = outputs;
  }
  const auto available = static_cast<double>(available_memory());
  if (bytes <= available) return;
  fail(ErrorKind::invalid_argument, "models",
       "the linear layers of {} with {}{} classes have parameters of {:.1f} GB, and {:.1f} GB of memory are available; "
       "{}",
       entry.name, entry.has_hidden ? cut_text(fmt::format("hidden [{}] and ", fmt::join(spec.hidden, ", "))) : "",
       spec.num_classes, bytes / 1e9, available / 1e9,
       entry.has_hidden ? "lower model.hidden or model.num_classes" : "lower model.num_classes");
}

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

at::Tensor classify(torch::nn::Module& module, const at::Tensor& pictures) {
  auto* network = dynamic_cast<Network*>(&module);
  if (network == nullptr) {
    fail(ErrorKind::invalid_argument, "models",
         "a classifier of pictures is a models::Network (models/network.h); this module is none");
  }
  return network->forward(pictures);
}

at::Tensor Classifier::forward(const at::Tensor& pictures) const {
  if (!module) fail(ErrorKind::invalid_argument, "models", "a Classifier's module must come from make_classifier");
  return classify(*module, pictures);
}

std::span<const PictureModel* const> picture_models() { return kModels; }

const PictureModel* find_picture_model(std::string_view name) {
  const auto found = std::ranges::find(kModels, name, &PictureModel::name);
  return found == kModels.end() ? nullptr : *found;
}

void require_pictures(const at::Tensor& pictures, std::int64_t channels, std::string_view model) {
  if (pictures.dim() == 4 && pictures.size(1) == channels) return;
  fail(
      ErrorKind::invalid_argument, "models",
      "{} was built for pictures of {} channels, [N, {}, height, width]; this batch has shape [{}]; change the data or "
      "the model's in_channels",
      model, channels, channels, fmt::join(pictures.sizes(), ", "));
}

void describe(ConfigFields& fields, StemOptions& options) {
  fields.field("stem", options.stem, one_of({"imagenet", "cifar"}),
               "first layers: imagenet, a 7x7 convolution with stride 2 and a max pool; cifar, a 3x3 convolution with "
               "stride 1, for pictures of 32x32");
}

std::string note_on_stem(const ModelSpec& spec, std::int64_t height, std::int64_t width) {
  const auto* entry = find_picture_model(spec.name);
  if (entry == nullptr || !entry->has_stem) return "";
  const bool is_cifar = stem_of(spec) == Stem::cifar;
  const std::int64_t pixels = is_cifar ? 8 : 32;  // side of the picture in pixels, per pixel of the last stage's side
  if (std::max(height, width) > pixels) return "";
  return fmt::format(
      "{} with the stem {} makes a picture of {}x{} one pixel in its last stage, whose convolutions cover almost "
      "nothing but their padding; {}",
      spec.name, spec.stem, height, width,
      is_cifar ? "take larger pictures, or another model" : "model.stem=cifar is for small pictures");
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto* entry : kModels) names.emplace_back(entry->name);
  return names;
}

Classifier make_classifier(const ModelSpec& spec) {
  check(spec);
  if (const auto* entry = find_picture_model(spec.name)) {
    require_memory(*entry, spec);
    return {entry->build(spec)};
  }
  const auto names = model_names();
  fail(ErrorKind::invalid_argument, "models", "there is no model \"{}\"{}", cut_text(spec.name),
       did_you_mean(spec.name, names, fmt::format("known are {}", fmt::join(names, ", "))));
}

namespace {

struct Row {
  std::string name;
  std::string shape;
  std::int64_t values = 0;
  std::string_view note;
};

struct Totals {
  std::int64_t trainable = 0;
  std::int64_t frozen = 0;
  std::int64_t buffers = 0;
  std::int64_t bytes = 0;
};

/// 11689512 -> "11,689,512".
std::string grouped(std::int64_t number) {
  auto digits = std::to_string(number);
  for (auto place = static_cast<std::int64_t>(digits.size()) - 3; place > 0; place -= 3) {
    digits.insert(static_cast<std::size_t>(place), 1, ',');
  }
  return digits;
}

Row row_of(const std::string& name, const torch::Tensor& tensor, std::string_view note) {
  return {name, fmt::format("[{}]", fmt::join(tensor.sizes(), ", ")), tensor.numel(), note};
}

/// A tensor that two modules share is listed under both names and counted once.
class Table {
 public:
  void add_parameter(const std::string& name, const torch::Tensor& tensor) {
    const bool first = note_size(tensor);
    const bool trainable = tensor.requires_grad();
    rows_.push_back(row_of(name, tensor, !first ? "shared" : trainable ? "" : "frozen"));
    if (first) (trainable ? totals_.trainable : totals_.frozen) += tensor.numel();
  }

  void add_buffer(const std::string& name, const torch::Tensor& tensor) {
    const bool first = note_size(tensor);
    rows_.push_back(row_of(name, tensor, first ? "buffer" : "shared"));
    if (first) totals_.buffers += tensor.numel();
  }

  std::string text() const {
    std::size_t name_width = 4;
    std::size_t shape_width = 5;
    for (const auto& row : rows_) {
      name_width = std::max(name_width, row.name.size());
      shape_width = std::max(shape_width, row.shape.size());
    }
    std::string out;
    auto line = std::back_inserter(out);
    fmt::format_to(line, "{:<{}}  {:<{}}  {:>12}\n", "name", name_width, "shape", shape_width, "values");
    for (const auto& row : rows_) {
      fmt::format_to(line, "{:<{}}  {:<{}}  {:>12}{}{}\n", row.name, name_width, row.shape, shape_width,
                     grouped(row.values), row.note.empty() ? "" : "  ", row.note);
    }
    fmt::format_to(line, "parameters: {} ({} trainable, {} frozen); buffers: {}; together {:.1f} MiB\n",
                   grouped(totals_.trainable + totals_.frozen), grouped(totals_.trainable), grouped(totals_.frozen),
                   grouped(totals_.buffers), static_cast<double>(totals_.bytes) / (1 << 20));
    return out;
  }

 private:
  /// False when the same tensor was counted before.
  bool note_size(const torch::Tensor& tensor) {
    if (!seen_.insert(tensor.unsafeGetTensorImpl()).second) return false;
    totals_.bytes += tensor.numel() * static_cast<std::int64_t>(tensor.element_size());
    return true;
  }

  std::vector<Row> rows_;
  Totals totals_;
  std::unordered_set<const void*> seen_;
};

}  // namespace

std::string summarize(const torch::nn::Module& module) {
  Table table;
  for (const auto& parameter : module.named_parameters()) table.add_parameter(parameter.key(), parameter.value());
  for (const auto& buffer : module.named_buffers()) table.add_buffer(buffer.key(), buffer.value());
  return table.text();
}

}  // namespace lockstep::models
