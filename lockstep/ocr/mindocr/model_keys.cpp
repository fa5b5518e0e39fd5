// The converter of MindOCR's model, loss, postprocess, data set and transform keys, for detection and recognition.
#include <lockstep/ocr/mindocr/model_keys.h>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

namespace lockstep::ocr {
namespace {

using Arguments = std::vector<std::pair<std::string, ConfigNode>>;

void set_text(Conversion& c, std::string_view path, std::string text) {
  set_key(c.ours, path, text_node(std::move(text)));
}

ConfigNode numbers(std::initializer_list<const char*> texts) {
  std::vector<ConfigNode> items;
  for (const auto* text : texts) items.push_back(text_node(text));
  return list_node(std::move(items));
}

/// One step of a pipeline: its arguments are taken, and those that are left are lost.
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
  step.given().take("bgr_to_rgb");  // of pictures that were decoded as BGR: ours are RGB
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

/// Our step; nullopt where it needs none.
std::optional<ConfigNode> detection_step(Step& step, Conversion& c) {
  const auto& name = step.name();
  auto& given = step.given();
  if (name == "DecodeImage") {
    given.take_if("img_mode", {"RGB"});
    given.take_if("to_float32", {"False"});
    given.take_if("keep_ori", {"False"});
    if (given.take_text("ignore_orientation") == "True") set_text(c, "data.orientation", "false");
    return std::nullopt;
  }
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
  if (name == "DetResize") {
    given.take_if("keep_ratio", {"False"});
    given.pass_over("", {"limit_type", "padding", "force_divisable"});
    if (auto size = given.take("target_size")) {
      given.pass_over("", {"divisor"});
      return named_node("text_resize", {{"size", std::move(*size)}});
    }
    return named_node("text_resize", taken(step, {{"limit_side_len", "longest"}, {"divisor", "multiple"}}));
  }
  if (name == "NormalizeImage") return normalize_of(step);
  if (name == "ToCHWImage") return text_node("hwc2chw");
  c.lost.push_back("the transform " + name);
  return std::nullopt;
}

std::optional<ConfigNode> recognition_step(Step& step, Conversion& c, bool trains) {
  const auto& name = step.name();
  auto& given = step.given();
  if (name == "DecodeImage") {
    given.take_if("img_mode", {"RGB"});
    given.take_if("to_float32", {"False"});
    return std::nullopt;
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
    return std::nullopt;
  }
  if (name == "Rotate90IfVertical") return named_node("turn_tall", taken(step, {{"threshold", "ratio"}}));
  if (name == "RecResizeImg") {
    given.pass_over("", {"infer_mode", "character_dict_path"});
    const auto padding = given.take_text("padding");
    return named_node(padding == "True" ? "resize_to_height" : "resize", taken(step, {{"image_shape", "size"}}));
  }
  if (name == "NormalizeImage") return normalize_of(step);
  if (name == "ToCHWImage") return text_node("hwc2chw");
  c.lost.push_back("the transform " + name);
  return std::nullopt;
}

/// Makes our step of one of theirs.
using StepOf = std::function<std::optional<ConfigNode>(Step&, bool trains)>;

void convert_steps(Conversion& c, const StepOf& step_of,
                   const std::function<void(std::vector<ConfigNode>&)>& finish_eval) {
  for (const bool trains : {true, false}) {
    const std::string split = trains ? "train" : "eval";
    const auto pipeline = c.given.take(split + ".dataset.transform_pipeline");
    if (!pipeline) continue;
    std::vector<ConfigNode> ours;
    for (const auto& item : read_named_list(*pipeline, split + ".dataset.transform_pipeline")) {
      Step step(item.name, item.arguments);
      if (auto made = step_of(step, trains)) ours.push_back(std::move(*made));
      for (const auto& left : step.given().left()) {
        c.lost.push_back(fmt::format("{}.dataset.transform_pipeline.{}.{}", split, item.name, left));
      }
    }
    if (!trains) finish_eval(ours);
    set_key(c.ours, fmt::format("data.{}_transforms", split), list_node(std::move(ours)));
  }
}

void convert_backbone_weights(Conversion& c) {
  const auto pretrained = c.given.take_text("model.backbone.pretrained");
  if (pretrained == "True") {
    c.notes.push_back(
        "model.backbone.pretrained is a download of MindOCR; give model.backbone_weights the path of "
        "torchvision's weights of that ResNet");
  } else if (!pretrained.empty() && pretrained != "False") {
    set_text(c, "model.backbone_weights", pretrained);
  }
  const auto whole = c.given.take_text("model.pretrained");
  if (!whole.empty())
    c.notes.push_back("model.pretrained is a file of MindSpore; give model.weights one with our names");
}

}  // namespace

void carry(Conversion& c, std::string_view theirs, std::string_view ours) {
  if (auto value = c.given.take(theirs)) set_key(c.ours, ours, std::move(*value));
}

void convert_detection(Conversion& c) {
  const auto backbone = c.given.take_text("model.backbone.name");
  set_text(c, "model.name", "dbnet");
  set_text(c, "task.name", "text_detection");
  if (backbone == "det_resnet50" || backbone == "det_resnet18") {
    set_text(c, "model.depth", backbone.substr(std::string("det_resnet").size()));
  } else {
    c.lost.push_back(fmt::format("model.backbone.name ({})", backbone));
  }
  convert_backbone_weights(c);
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
  const auto shape = c.given.take_text("postprocess.box_type");
  if (!shape.empty()) set_text(c, "task.shape", shape == "poly" ? "polygon" : shape);
  carry(c, "postprocess.binary_thresh", "task.map_threshold");
  carry(c, "postprocess.box_thresh", "task.box_threshold");
  carry(c, "postprocess.max_candidates", "task.most_words");
  carry(c, "postprocess.expand_ratio", "task.expand_ratio");
  c.given.take_if("metric.name", {"DetMetric"});
  c.given.take_if("loss.name", {"DBLoss"});
  c.given.take_if("loss.bce_replace", {"bceloss"});
  c.given.take_if("loss.eps", {"1e-6", "1.0e-6", "0.000001"});
  carry(c, "loss.l1_scale", "task.threshold_weight");
  carry(c, "loss.bce_scale", "task.probability_weight");

  set_text(c, "data.name", "text_boxes");
  carry(c, "train.dataset.dataset_root", "data.root");
  for (const std::string split : {"train", "eval"}) {
    c.given.take_if(split + ".dataset.type", {"DetDataset"});
    carry(c, split + ".dataset.label_file", "data." + split);
    carry(c, split + ".dataset.data_dir", "data." + split + "_pictures");
  }
  const auto* root = c.ours.find("data")->find("root");
  const auto eval_root = c.given.take_text("eval.dataset.dataset_root");
  if (root != nullptr && !eval_root.empty() && eval_root != root->scalar) {
    c.lost.push_back(fmt::format("eval.dataset.dataset_root ({}): data.root is that of training", eval_root));
  }
  // The loss of an evaluation needs the map of shrunk words, which are made before pixels become numbers.
  const auto add_map = [](std::vector<ConfigNode>& steps) {
    const auto at =
        std::ranges::find_if(steps, [](const ConfigNode& step) { return step.find("normalize") != nullptr; });
    steps.insert(at, text_node("text_shrink_map"));
  };
  convert_steps(
      c, [&c](Step& step, bool) { return detection_step(step, c); }, add_map);
}

void convert_recognition(Conversion& c) {
  const auto backbone = c.given.take_text("model.backbone.name");
  if (backbone == "rec_resnet34" || backbone == "rec_vgg7") {
    set_text(c, "model.name", "crnn_" + backbone.substr(std::string("rec_").size()));
  } else {
    c.lost.push_back(fmt::format("model.backbone.name ({})", backbone));
  }
  convert_backbone_weights(c);
  c.given.take_if("model.transform", {"null"});
  c.given.take_if("model.neck.name", {"RNN", "RNNEncoder"});
  carry(c, "model.neck.hidden_size", "model.hidden");
  c.given.take_if("model.head.name", {"CTCHead"});
  carry(c, "model.head.out_channels", "model.num_classes");
  c.given.pass_over("model.head", {"weight_init", "bias_init", "in_channels"});

  c.given.take_if("postprocess.name", {"RecCTCLabelDecode", "CTCLabelDecode"});
  carry(c, "postprocess.character_dict_path", "task.dictionary");
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
  c.given.take("eval.dataset.dataset_root");
  for (const std::string split : {"train", "eval"}) {
    const auto type = c.given.take_text(split + ".dataset.type");
    const auto folder = c.given.take_text(split + ".dataset.data_dir");
    const auto list = c.given.take_text(split + ".dataset.label_file");
    const bool is_lmdb = type == "LMDBDataset";
    if (!is_lmdb && type != "RecDataset" && !type.empty()) c.lost.push_back(split + ".dataset.type (" + type + ")");
    if (is_lmdb ? !folder.empty() : !list.empty()) {
      set_key(c.ours, "data." + split, list_node({text_node(is_lmdb ? folder : list)}));
    }
    if (!is_lmdb && !folder.empty()) set_text(c, "data." + split + "_images", folder);
    c.given.pass_over(split + ".dataset", {"filter_max_len", "max_text_len", "filter_zero_text_image"});
  }
  convert_steps(
      c, [&c](Step& step, bool trains) { return recognition_step(step, c, trains); }, [](auto&) {});
}

}  // namespace lockstep::ocr
