// The converter of MindOCR's model, loss, postprocess, data set and transform keys, for detection and recognition.
#include <apps/ocr/mindocr/model_keys.h>

#include <lockstep/base/error.h>
#include <lockstep/base/text.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace lockstep::ocr {
namespace {

using Arguments = std::vector<std::pair<std::string, ConfigNode>>;

void set_text(Conversion& c, std::string_view path, std::string text) {
  set_key(c.ours, path, text_node(std::move(text)));
}

bool says_yes(std::string_view text) { return text == "True" || text == "true"; }

ConfigNode numbers(std::initializer_list<const char*> texts) {
  std::vector<ConfigNode> items;
  for (const auto* text : texts) items.push_back(text_node(text));
  return list_node(std::move(items));
}

/// One step of a pipeline: its arguments are taken, and the remaining ones are reported as lost.
class Step {
 public:
  Step(std::string name, ConfigNode arguments) : name_(std::move(name)), given_(std::move(arguments)) {}

  const std::string& name() const { return name_; }
  GivenKeys& given() { return given_; }

  /// Adds `ours` with the value of `theirs`, where it is given.
  Step& with(Arguments& arguments, std::string_view theirs, const char* ours) {
    if (auto value = given_.take(theirs)) arguments.emplace_back(ours, std::move(*value));
    return *this;
  }

 private:
  std::string name_;
  GivenKeys given_;
};

Arguments taken(Step& step, std::initializer_list<std::pair<const char*, const char*>> names) {
  Arguments arguments;
  for (const auto& [theirs, ours] : names) step.with(arguments, theirs, ours);
  return arguments;
}

ConfigNode normalize_of(Step& step) {
  step.given().take("bgr_to_rgb");  // for pictures that were decoded as BGR: ours are RGB
  step.given().take_if("is_hwc", {"True"});
  Arguments arguments;
  for (const auto* key : {"mean", "std"}) {
    auto value = step.given().take(key);
    if (!value || value->scalar == "imagenet") {
      value = std::string(key) == "mean" ? numbers({"123.675", "116.28", "103.53"})
                                         : numbers({"58.395", "57.12", "57.375"});
    }
    arguments.emplace_back(key, std::move(*value));
  }
  return named_node("normalize", arguments);
}

/// The resize of an evaluation's picture to multiples of 32.
ConfigNode resize_of(Step& step, Conversion& c) {
  auto& given = step.given();
  const auto ratio = given.take_text("keep_ratio");
  const bool keeps_ratio = step.name() == "ScalePadImage" || ratio.empty() || says_yes(ratio);
  given.pass_over("", {"padding", "force_divisable"});
  const auto limit = given.take_text("limit_type");
  if (auto size = given.take("target_size")) {
    given.pass_over("", {"divisor", "limit_side_len"});
    Arguments arguments{{"size", std::move(*size)}};
    if (keeps_ratio) arguments.emplace_back("keep_ratio", text_node("true"));
    return named_node("text_resize", arguments);
  }
  if (limit != "max" && given.take("limit_side_len")) {
    c.lost.push_back("DetResize.limit_type (min: small pictures are not enlarged here)");
  }
  return named_node("text_resize", taken(step, {{"limit_side_len", "longest"}, {"divisor", "multiple"}}));
}

/// Our step; nullopt if none is needed.
std::optional<ConfigNode> detection_step(Step& step, Conversion& c) {
  const auto& name = step.name();
  auto& given = step.given();
  if (name == "DecodeImage") {
    given.take_if("img_mode", {"RGB"});
    given.take_if("to_float32", {"False"});
    given.take_if("keep_ori", {"False"});
    if (says_yes(given.take_text("ignore_orientation"))) set_text(c, "data.orientation", "false");
    return std::nullopt;
  }
  if (name == "Decode") return std::nullopt;
  if (name == "DetLabelEncode" || name == "ValidatePolygons") {
    given.take_if("min_area", {"1", "1.0"});
    given.pass_over("", {"clip_to_visible_area"});
    return std::nullopt;
  }
  if (name == "RandomColorAdjust") {
    return named_node("color_jitter", taken(step, {{"brightness", "brightness"}, {"saturation", "saturation"}}));
  }
  if (name == "RandomHorizontalFlip") return named_node("text_random_flip", taken(step, {{"p", "prob"}}));
  given.take_if("p", {"1", "1.0"});
  if (name == "RandomRotate") {
    given.take_if("expand_canvas", {"False"});
    return named_node("text_random_rotate", taken(step, {{"degrees", "degrees"}}));
  }
  if (name == "RandomScale") {
    given.take_if("size_limits", {"null"});
    return named_node("text_random_scale", taken(step, {{"scale_range", "range"}}));
  }
  if (name == "RandomCropWithBBox") {
    return named_node(
        "text_random_crop",
        taken(step, {{"crop_size", "size"}, {"max_tries", "tries"}, {"min_crop_ratio", "min_side_ratio"}}));
  }
  if (name == "ShrinkBinaryMap") {
    return named_node("text_shrink_map",
                      taken(step, {{"min_text_size", "min_text_size"}, {"shrink_ratio", "shrink_ratio"}}));
  }
  if (name == "BorderMap") {
    return named_node("text_border_map",
                      taken(step, {{"shrink_ratio", "shrink_ratio"}, {"thresh_min", "low"}, {"thresh_max", "high"}}));
  }
  if (name == "DetResize" || name == "ScalePadImage") return resize_of(step, c);
  if (name == "NormalizeImage" || name == "Normalize") return normalize_of(step);
  if (name == "ToCHWImage" || name == "HWC2CHW") return text_node("hwc2chw");
  c.lost.push_back("the transform " + name);
  return std::nullopt;
}

/// RecResizeNormForInfer and RecResizeNormImg: a size, and numbers from bytes.
std::vector<ConfigNode> resize_and_normalize(Step& step, Conversion& c) {
  auto& given = step.given();
  given.pass_over("", {"infer_mode", "character_dict_path", "interpolation"});
  const auto text_or = [&](const char* key, const char* otherwise) {
    auto text = given.take_text(key);
    return text.empty() ? std::string(otherwise) : text;
  };
  ConfigNode size;
  bool keeps_ratio = false;
  if (step.name() == "RecResizeNormForInfer") {
    size = list_node({text_node(text_or("target_height", "32")), text_node(text_or("target_width", "320"))});
    keeps_ratio = says_yes(text_or("keep_ratio", "True"));
    const bool pads = says_yes(text_or("padding", "False"));
    if (keeps_ratio && !pads) {
      c.notes.push_back("RecResizeNormForInfer fills narrow pictures up to target_width here, with padding or without");
    }
  } else {
    size = given.take("image_shape").value_or(numbers({"32", "320"}));
    keeps_ratio = says_yes(text_or("padding", "True"));
  }
  const bool fills_zeros = says_yes(text_or("norm_before_pad", "False"));
  Arguments scale;
  std::string fill = "127";
  for (const auto* key : {"mean", "std"}) {
    auto value = given.take(key).value_or(numbers({"127.0", "127.0", "127.0"}));
    if (std::string_view(key) == "mean" && !value.items.empty()) fill = value.items.front().scalar;
    scale.emplace_back(key, std::move(value));
  }
  Arguments shape{{"size", std::move(size)}};
  if (keeps_ratio && fills_zeros) {
    // The byte that the mean maps to 0, because padding here uses bytes.
    const auto mean = parse_number(fill);
    if (mean && *mean == std::floor(*mean)) {
      shape.emplace_back("fill", text_node(fmt::format("{}", static_cast<int>(*mean))));
    } else {
      c.lost.push_back(fmt::format("{}.norm_before_pad (mean {})", step.name(), fill));
    }
  }
  return {named_node(keeps_ratio ? "resize_to_height" : "resize", shape), named_node("normalize", scale)};
}

std::vector<ConfigNode> recognition_step(Step& step, Conversion& c, bool trains) {
  const auto& name = step.name();
  auto& given = step.given();
  if (name == "RecResizeNormForInfer" || name == "RecResizeNormImg") return resize_and_normalize(step, c);
  if (name == "Decode") return {};
  if (name == "DecodeImage") {
    given.take_if("img_mode", {"RGB", "BGR"});  // ours are RGB, as the network's input is in both cases
    given.take_if("to_float32", {"False"});
    return {};
  }
  if (name == "RecCTCLabelEncode") {
    for (const auto& [theirs, ours] :
         std::initializer_list<std::pair<const char*, const char*>>{{"max_text_len", "data.max_text_len"},
                                                                    {"character_dict_path", "data.dictionary"},
                                                                    {"use_space_char", "data.use_space_char"},
                                                                    {"lower", "data.lower"}}) {
      auto value = given.take(theirs);
      if (value && trains) set_key(c.ours, ours, std::move(*value));
    }
    return {};
  }
  if (name == "Rotate90IfVertical") return {named_node("turn_tall", taken(step, {{"threshold", "ratio"}}))};
  if (name == "RecResizeImg") {
    given.pass_over("", {"infer_mode", "character_dict_path"});
    const auto padding = given.take_text("padding");
    return {named_node(says_yes(padding) ? "resize_to_height" : "resize", taken(step, {{"image_shape", "size"}}))};
  }
  if (name == "NormalizeImage" || name == "Normalize") return {normalize_of(step)};
  if (name == "ToCHWImage" || name == "HWC2CHW") return {text_node("hwc2chw")};
  c.lost.push_back("the transform " + name);
  return {};
}

/// MindOCR's models, by a part that only they have: the part's key, the part's name, and the model's name.
struct ForeignPart {
  std::string_view path;
  std::string_view part;
  std::string_view model;
};
constexpr std::array<ForeignPart, 21> kForeignParts = {
    {{"model.head.name", "PSEHead", "PSENet"},
     {"model.neck.name", "PSEFPN", "PSENet"},
     {"model.head.name", "EASTHead", "EAST"},
     {"model.neck.name", "EASTFPN", "EAST"},
     {"model.head.name", "FCEHead", "FCENet"},
     {"model.neck.name", "FCEFPN", "FCENet"},
     {"model.neck.name", "RSEFPN", "the detector of PP-OCRv3"},
     {"model.head.name", "DBHeadEnhance", "the detector of PP-OCRv3"},
     {"model.head.name", "AttentionHead", "RARE"},
     {"model.head.name", "MasterDecoder", "MASTER"},
     {"model.backbone.name", "rec_master_resnet31", "MASTER"},
     {"model.backbone.name", "SVTRNet", "SVTR"},
     {"model.backbone.name", "rec_svtr", "SVTR"},
     {"model.head.name", "VisionLANHead", "VisionLAN"},
     {"model.head.name", "VLHead", "VisionLAN"},
     {"model.backbone.name", "visionlan_resnet", "VisionLAN"},
     {"model.head.name", "RobustScannerHead", "RobustScanner"},
     {"model.head.name", "ABINetHead", "ABINet"},
     {"model.backbone.name", "abinet_backbone", "ABINet"},
     {"model.head.name", "CANHead", "CAN"},
     {"model.backbone.name", "can_densenet", "CAN"}}};

[[noreturn]] void refuse_model(std::string_view path, const std::string& value, std::string_view model) {
  fail(ErrorKind::config, path,
       "is {}{}{}, and Lockstep does not have that model; it has DBNet (model.backbone det_resnet18, det_resnet50 or "
       "det_mobilenet_v3, neck DBFPN, head DBHead) and CRNN (rec_resnet34 or rec_vgg7, RNNEncoder, CTCHead)",
       value.empty() ? "missing" : value, model.empty() ? "" : ", a part of ", model);
}

struct KnownParts {
  std::vector<std::string_view> backbones, necks, heads;
};

/// Error(config) for a model of other parts, by its name.
void require_known_model(const GivenKeys& theirs, const KnownParts& known) {
  auto given = theirs;
  std::map<std::string, std::string, std::less<>> parts;
  for (const auto* part : {"backbone", "neck", "head", "transform"}) {
    const auto path = fmt::format("model.{}.name", part);
    parts[path] = given.take_text(path);
  }
  for (const auto& foreign : kForeignParts) {
    const auto& value = parts[std::string(foreign.path)];
    if (value == foreign.part) refuse_model(foreign.path, value, foreign.model);
  }
  const auto transform = parts["model.transform.name"];
  if (!transform.empty()) refuse_model("model.transform.name", transform, "");
  if (says_yes(given.take_text("model.neck.use_asf"))) refuse_model("model.neck.use_asf", "True", "DBNet++");
  const auto require = [&](const std::string& path, const std::vector<std::string_view>& names, bool may_be_missing) {
    const auto& value = parts[path];
    if (value.empty() && may_be_missing) return;
    if (std::ranges::find(names, value) == names.end()) refuse_model(path, value, "");
  };
  require("model.backbone.name", known.backbones, false);
  require("model.neck.name", known.necks, true);
  require("model.head.name", known.heads, true);
}

/// MobileNetV3 of those sizes that DBNet of MindOCR has.
void convert_mobilenet(Conversion& c) {
  set_text(c, "model.backbone", "mobilenet_v3");
  carry(c, "model.backbone.alpha", "model.width");
  if (const auto* model = c.ours.find("model"); model->find("width") == nullptr) set_text(c, "model.width", "1");
  const auto architecture = c.given.take_text("model.backbone.architecture");
  if (!architecture.empty() && architecture != "large") {
    refuse_model("model.backbone.architecture", architecture, "another MobileNetV3 than the large one");
  }
  if (const auto stages = c.given.take("model.backbone.out_stages")) {
    std::vector<std::string> numbers;
    for (const auto& stage : stages->items) numbers.push_back(stage.scalar);
    if (numbers != std::vector<std::string>{"5", "8", "14", "20"}) {
      c.lost.push_back(
          fmt::format("model.backbone.out_stages ([{}], here they are 5, 8, 14, 20)", fmt::join(numbers, ", ")));
    }
  }
  const auto given_or = [](std::string value, const char* otherwise) { return value.empty() ? otherwise : value; };
  const auto squeeze = given_or(c.given.take_text("model.backbone.bottleneck_params.se_version"), "SqueezeExcite");
  const auto expand = given_or(c.given.take_text("model.backbone.bottleneck_params.always_expand"), "False");
  if (squeeze != "SqueezeExciteV2" || !says_yes(expand)) {
    c.lost.push_back(
        fmt::format("model.backbone.bottleneck_params (se_version {}, always_expand {}; here blocks are those of "
                    "SqueezeExciteV2, True)",
                    squeeze, expand));
  }
}

/// Converts one of their steps to ours.
using StepOf = std::function<std::vector<ConfigNode>(Step&, bool trains)>;

void convert_steps(Conversion& c, const StepOf& step_of,
                   const std::function<void(std::vector<ConfigNode>&)>& finish_eval) {
  for (const bool trains : {true, false}) {
    const std::string split = trains ? "train" : "eval";
    const auto pipeline = c.given.take(split + ".dataset.transform_pipeline");
    if (!pipeline) continue;
    std::vector<ConfigNode> ours;
    for (const auto& item : read_named_list(*pipeline, split + ".dataset.transform_pipeline")) {
      Step step(item.name, item.arguments);
      std::ranges::move(step_of(step, trains), std::back_inserter(ours));
      for (const auto& left : step.given().left()) {
        c.lost.push_back(fmt::format("{}.dataset.transform_pipeline.{}.{}", split, item.name, left));
      }
      for (const auto& passed : step.given().passed()) {
        c.passed_over.push_back(fmt::format("{}.dataset.transform_pipeline.{}.{}", split, item.name, passed));
      }
    }
    if (!trains) finish_eval(ours);
    set_key(c.ours, fmt::format("data.{}_transforms", split), list_node(std::move(ours)));
  }
}

bool is_download(const std::string& text) { return says_yes(text) || text.find("://") != text.npos; }

/// The initial weights at `path`: a path, True or the address of a download; "" for none.
std::string taken_weights(Conversion& c, std::string_view path) {
  const auto given = c.given.take_text(path);
  return given == "False" || given == "false" ? "" : given;
}

void convert_backbone_weights(Conversion& c) {
  const auto given = taken_weights(c, "model.backbone.pretrained");
  if (is_download(given)) {
    const bool is_resnet = c.ours.find("model")->find("backbone") == nullptr;
    c.notes.push_back(fmt::format(
        "model.backbone.pretrained ({}) is a download of MindOCR; give model.backbone_weights the path of that file{}",
        given, is_resnet ? ", or of torchvision's weights of that ResNet" : ""));
  } else if (!given.empty()) {
    set_text(c, "model.backbone_weights", given);
  }
}

void convert_whole_weights(Conversion& c) {
  const auto given = taken_weights(c, "model.pretrained");
  if (is_download(given)) {
    c.notes.push_back(fmt::format(
        "model.pretrained ({}) is a download of MindOCR; give model.weights the path of that .ckpt", given));
  } else if (!given.empty()) {
    set_text(c, "model.weights", given);
  }
}

std::string with_line(const std::string& path, const ConfigNode& node) {
  return node.position.line > 0 ? fmt::format("{} (line {})", path, node.position.line) : path;
}

/// The paths at `path`, one or several.
std::vector<ConfigNode> taken_paths(Conversion& c, std::string_view path) {
  auto value = c.given.take(path);
  if (!value) return {};
  return value->kind == ConfigNode::Kind::list ? std::move(value->items) : std::vector<ConfigNode>{std::move(*value)};
}

/// Sets `ours`, which is one path. Error(config) where there are several.
void carry_one_path(Conversion& c, const std::string& theirs, const std::string& ours, std::string_view advice) {
  auto paths = taken_paths(c, theirs);
  if (paths.size() > 1) {
    fail(ErrorKind::config, "convert", "{} is a list of {}, and {} is one: {}", with_line(theirs, paths.front()),
         paths.size(), ours, advice);
  }
  if (!paths.empty()) set_key(c.ours, ours, std::move(paths.front()));
}

/// data.root is the folder of the training data.
void compare_roots(Conversion& c) {
  const auto* data = c.ours.find("data");
  const auto* root = data == nullptr ? nullptr : data->find("root");
  const auto eval_root = c.given.take_text("eval.dataset.dataset_root");
  if (root != nullptr && !eval_root.empty() && eval_root != root->scalar) {
    c.lost.push_back(fmt::format("eval.dataset.dataset_root ({}): data.root is that of training", eval_root));
  }
}

}  // namespace

void carry(Conversion& c, std::string_view theirs, std::string_view ours) {
  if (auto value = c.given.take(theirs)) set_key(c.ours, ours, std::move(*value));
}

void convert_detection(Conversion& c) {
  require_known_model(
      c.given,
      {.backbones = {"det_resnet18", "det_resnet50", "det_mobilenet_v3"}, .necks = {"DBFPN"}, .heads = {"DBHead"}});
  const auto backbone = c.given.take_text("model.backbone.name");
  set_text(c, "model.name", "dbnet");
  set_text(c, "task.name", "text_detection");
  if (backbone == "det_mobilenet_v3") {
    convert_mobilenet(c);
  } else {
    set_text(c, "model.depth", backbone.substr(std::string("det_resnet").size()));
  }
  convert_backbone_weights(c);
  convert_whole_weights(c);
  c.given.take_if("model.neck.name", {"DBFPN"});
  carry(c, "model.neck.out_channels", "model.channels");
  c.given.take_if("model.neck.bias", {"False"});
  c.given.take_if("model.neck.use_asf", {"False"});
  c.given.take_if("model.head.name", {"DBHead"});
  carry(c, "model.head.k", "model.k");
  c.given.take_if("model.head.bias", {"False"});
  c.given.take_if("model.head.adaptive", {"True"});
  c.given.take_if("model.head.serial", {"False"});

  c.given.take_if("postprocess.name", {"DBPostprocess"});
  if (says_yes(c.given.take_text("postprocess.output_polygon"))) set_text(c, "task.shape", "polygon");
  const auto shape = c.given.take_text("postprocess.box_type");
  if (!shape.empty()) set_text(c, "task.shape", shape == "poly" ? "polygon" : shape);
  carry(c, "postprocess.binary_thresh", "task.map_threshold");
  carry(c, "postprocess.box_thresh", "task.box_threshold");
  carry(c, "postprocess.max_candidates", "task.most_words");
  carry(c, "postprocess.expand_ratio", "task.expand_ratio");
  c.given.take_if("metric.name", {"DetMetric"});
  c.given.take_if("loss.name", {"DBLoss", "L1BalancedCELoss"});
  c.given.take_if("loss.bce_replace", {"bceloss"});
  c.given.take_if("loss.eps", {"1e-6", "1.0e-6", "0.000001"});
  carry(c, "loss.l1_scale", "task.threshold_weight");
  carry(c, "loss.bce_scale", "task.probability_weight");

  set_text(c, "data.name", "text_boxes");
  carry(c, "train.dataset.dataset_root", "data.root");
  for (const std::string split : {"train", "eval"}) {
    if (const auto type = c.given.take_text(split + ".dataset.type"); type == "SynthTextDataset") {
      c.notes.push_back(fmt::format(
          "data.{} is SynthText's .mat file, which is not read: make a list of it, a line each, name, tab, JSON",
          split));
    } else if (!type.empty() && type != "DetDataset") {
      c.lost.push_back(fmt::format("{}.dataset.type ({})", split, type));
    }
    carry_one_path(c, split + ".dataset.label_file", "data." + split,
                   "write the lines of all into one file (cat A B > ALL) and give its path");
    carry_one_path(c, split + ".dataset.data_dir", "data." + split + "_pictures",
                   "give a folder above all of them, and names relative to it in the label file");
  }
  // Without a section `eval` there is no evaluation.
  if (c.ours.find("data")->find("eval") == nullptr) set_text(c, "data.eval", "");
  compare_roots(c);
  // The loss of an evaluation needs the map of shrunk words, which are made before pixels become numbers.
  const auto add_map = [](std::vector<ConfigNode>& steps) {
    const auto at =
        std::ranges::find_if(steps, [](const ConfigNode& step) { return step.find("normalize") != nullptr; });
    steps.insert(at, text_node("text_shrink_map"));
  };
  convert_steps(
      c,
      [&c](Step& step, bool) {
        auto made = detection_step(step, c);
        return made ? std::vector<ConfigNode>{std::move(*made)} : std::vector<ConfigNode>{};
      },
      add_map);
}

void convert_recognition(Conversion& c) {
  require_known_model(
      c.given, {.backbones = {"rec_resnet34", "rec_vgg7"}, .necks = {"RNN", "RNNEncoder"}, .heads = {"CTCHead"}});
  const auto backbone = c.given.take_text("model.backbone.name");
  set_text(c, "model.name", "crnn_" + backbone.substr(std::string("rec_").size()));
  if (const auto given = taken_weights(c, "model.backbone.pretrained"); !given.empty()) {
    c.lost.push_back(
        fmt::format("model.backbone.pretrained ({}; model.weights takes those of the whole model)", given));
  }
  convert_whole_weights(c);
  c.given.take_if("model.transform", {"null"});
  c.given.take_if("model.neck.name", {"RNN", "RNNEncoder"});
  carry(c, "model.neck.hidden_size", "model.hidden");
  c.given.take_if("model.head.name", {"CTCHead"});
  carry(c, "model.head.out_channels", "model.num_classes");
  c.given.pass_over("model.head", {"weight_init", "bias_init", "in_channels"});

  c.given.take_if("postprocess.name", {"RecCTCLabelDecode", "CTCLabelDecode"});
  carry(c, "postprocess.character_dict_path", "task.dictionary");
  if (const auto* task = c.ours.find("task"); task != nullptr && task->find("dictionary") != nullptr) {
    c.notes.push_back(fmt::format(
        "task.dictionary and data.dictionary are {}: copy that file of MindOCR to there, or give another path",
        task->find("dictionary")->scalar));
  }
  carry(c, "postprocess.use_space_char", "task.use_space_char");
  set_text(c, "task.name", "text_recognition");
  set_text(c, "task.blank", "last");
  c.given.take_if("metric.name", {"RecMetric"});
  c.given.pass_over("metric", {"character_dict_path", "print_flag"});
  carry(c, "metric.ignore_space", "task.ignore_space");
  carry(c, "metric.lower", "task.ignore_case");
  carry(c, "metric.filter_ood", "task.ignore_outside");
  c.given.take_if("loss.name", {"CTCLoss"});
  c.given.pass_over("loss", {"pred_seq_len", "max_label_len", "batch_size", "reduction"});

  set_text(c, "data.name", "words");
  carry(c, "train.dataset.dataset_root", "data.root");
  compare_roots(c);
  for (const std::string split : {"train", "eval"}) {
    const auto type = c.given.take_text(split + ".dataset.type");
    const bool is_lmdb = type == "LMDBDataset";
    auto files = taken_paths(c, split + (is_lmdb ? ".dataset.data_dir" : ".dataset.label_file"));
    if (!is_lmdb && type != "RecDataset" && !type.empty()) c.lost.push_back(split + ".dataset.type (" + type + ")");
    if (!files.empty()) set_key(c.ours, "data." + split, list_node(std::move(files)));
    if (is_lmdb) {
      c.given.pass_over(split + ".dataset", {"label_file"});  // the words are in the databases
    } else {
      carry_one_path(c, split + ".dataset.data_dir", "data." + split + "_images",
                     "give a folder above all of them, and names relative to it in the label files");
    }
    c.given.pass_over(split + ".dataset", {"filter_max_len", "max_text_len", "filter_zero_text_image"});
  }
  convert_steps(
      c, [&c](Step& step, bool trains) { return recognition_step(step, c, trains); }, [](auto&) {});
}

}  // namespace lockstep::ocr
