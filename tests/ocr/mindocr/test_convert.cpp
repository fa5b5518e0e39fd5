// MindOCR's configurations become ours: those of its DBNet and CRNN without loss.
#include <apps/ocr/mindocr/convert.h>
#include <apps/ocr/parts.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lockstep/base/yaml_text.h>
#include <lockstep/train/configuration/read_config.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/expect_error.h"

namespace lockstep::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kDbnet = R"(
system: {mode: 0, distribute: True, amp_level: 'O0', seed: 42, log_interval: 10, val_while_train: True,
         drop_overflow_update: False}
model:
  type: det
  transform: null
  backbone: {name: det_resnet50, pretrained: True}
  neck: {name: DBFPN, out_channels: 256, bias: False, use_asf: False}
  head: {name: DBHead, k: 50, bias: False, adaptive: True, serial: False}
postprocess: {name: DBPostprocess, box_type: quad, binary_thresh: 0.3, box_thresh: 0.6, max_candidates: 1000,
              expand_ratio: 1.5}
metric: {name: DetMetric, main_indicator: f-score}
loss: {name: DBLoss, eps: 1.0e-6, l1_scale: 10, bce_scale: 5, bce_replace: bceloss}
scheduler: {scheduler: polynomial_decay, lr: 0.007, num_epochs: 1200, decay_rate: 0.9, warmup_epochs: 3}
optimizer: {opt: SGD, filter_bias_and_bn: false, momentum: 0.9, weight_decay: 1.0e-4}
loss_scaler: {type: dynamic, loss_scale: 512, scale_factor: 2, scale_window: 1000}
train:
  gradient_accumulation_steps: 2
  ckpt_save_dir: ./tmp_det
  dataset_sink_mode: True
  dataset:
    type: DetDataset
    dataset_root: /data/ocr_datasets
    data_dir: ic15/train/images
    label_file: ic15/train/det_gt.txt
    sample_ratio: 1.0
    transform_pipeline:
      - DecodeImage: {img_mode: RGB, to_float32: False}
      - DetLabelEncode:
      - RandomColorAdjust: {brightness: 0.1255, saturation: 0.5}
      - RandomHorizontalFlip: {p: 0.5}
      - RandomRotate: {degrees: [-10, 10], expand_canvas: False, p: 1.0}
      - RandomScale: {scale_range: [0.5, 3.0], p: 1.0}
      - RandomCropWithBBox: {max_tries: 10, min_crop_ratio: 0.1, crop_size: [640, 640], p: 1.0}
      - ValidatePolygons:
      - ShrinkBinaryMap: {min_text_size: 8, shrink_ratio: 0.4}
      - BorderMap: {shrink_ratio: 0.4, thresh_min: 0.3, thresh_max: 0.7}
      - NormalizeImage: {bgr_to_rgb: False, is_hwc: True, mean: imagenet, std: imagenet}
      - ToCHWImage:
    output_columns: ['image', 'binary_map', 'mask', 'thresh_map', 'thresh_mask']
    net_input_column_index: [0]
    label_column_index: [1, 2, 3, 4]
  loader: {shuffle: True, batch_size: 10, drop_remainder: True, num_workers: 8}
eval:
  ckpt_load_path: tmp_det/best.ckpt
  dataset_sink_mode: False
  dataset:
    type: DetDataset
    dataset_root: /data/ocr_datasets
    data_dir: ic15/test/images
    label_file: ic15/test/det_gt.txt
    sample_ratio: 1.0
    transform_pipeline:
      - DecodeImage: {img_mode: RGB, to_float32: False}
      - DetLabelEncode:
      - DetResize: {target_size: [736, 1280], keep_ratio: False, limit_type: none, divisor: 32}
      - NormalizeImage: {bgr_to_rgb: False, is_hwc: True, mean: imagenet, std: imagenet}
      - ToCHWImage:
    output_columns: ['img_path', 'image', 'polys', 'ignore_tags', 'shape_list']
    net_input_column_index: [1]
    label_column_index: [2, 3]
  loader: {shuffle: False, batch_size: 1, drop_remainder: False, num_workers: 2}
)";

constexpr const char* kCrnn = R"(
system: {mode: 0, distribute: True, amp_level: O3, seed: 42, log_interval: 100, val_while_train: True,
         drop_overflow_update: False, ckpt_max_keep: 5}
common: {character_dict_path: &dict null, num_classes: &classes 37, max_text_len: &length 24, infer_mode: &infer False,
         use_space_char: &space False, batch_size: &batch 64}
model:
  type: rec
  transform: null
  backbone: {name: rec_resnet34, pretrained: False}
  neck: {name: RNNEncoder, hidden_size: 256}
  head: {name: CTCHead, weight_init: crnn_customised, bias_init: crnn_customised, out_channels: *classes}
postprocess: {name: RecCTCLabelDecode, character_dict_path: *dict, use_space_char: *space}
metric: {name: RecMetric, main_indicator: acc, character_dict_path: *dict, ignore_space: True, print_flag: False}
loss: {name: CTCLoss, pred_seq_len: 25, max_label_len: *length, batch_size: *batch}
scheduler: {scheduler: warmup_cosine_decay, min_lr: 0.0, lr: 0.0005, num_epochs: 30, warmup_epochs: 1, decay_epochs: 29}
optimizer: {opt: adamw, filter_bias_and_bn: True, weight_decay: 0.0001}
loss_scaler: {type: static, loss_scale: 512}
train:
  ckpt_save_dir: ./tmp_rec
  dataset_sink_mode: True
  dataset:
    type: LMDBDataset
    dataset_root: /data/lmdb
    data_dir: training/
    label_file: null
    sample_ratio: 1.0
    shuffle: True
    transform_pipeline:
      - DecodeImage: {img_mode: RGB, to_float32: False}
      - RecCTCLabelEncode: {max_text_len: *length, character_dict_path: *dict, use_space_char: *space, lower: True}
      - RecResizeImg: {image_shape: [32, 100], infer_mode: *infer, character_dict_path: *dict, padding: False}
      - NormalizeImage: {bgr_to_rgb: True, is_hwc: True, mean: [127.0, 127.0, 127.0], std: [127.0, 127.0, 127.0]}
      - ToCHWImage:
    output_columns: ['image', 'text_seq']
    net_input_column_index: [0]
    label_column_index: [1]
  loader: {shuffle: True, batch_size: *batch, drop_remainder: True, max_rowsize: 12, num_workers: 8}
eval:
  ckpt_load_path: ./tmp_rec/best.ckpt
  dataset:
    type: LMDBDataset
    dataset_root: /data/lmdb
    data_dir: validation/
    transform_pipeline: [DecodeImage, ToCHWImage]
  loader: {batch_size: 64, num_workers: 8}
)";

/// The whole configuration that the converted text gives.
train::ResolvedRun read(const std::string& theirs, std::vector<std::string>* lost = nullptr) {
  const auto converted = ocr::convert_mindocr(parse_yaml(theirs, "theirs.yaml"));
  if (lost != nullptr) *lost = converted.lost;
  const auto parts = std::make_shared<const train::Parts>(ocr::with_ocr_parts(train::shipped_parts()));
  return train::read_run_config(parse_config(ocr::converted_text(converted, "theirs.yaml"), "ours.yaml"),
                                train::ResolvedRun({}, parts));
}

std::string read_text(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(ConvertMindocr, CarriesDbnetWithoutLoss) {
  std::vector<std::string> lost;
  const auto config = read(kDbnet, &lost);
  EXPECT_THAT(lost, IsEmpty());
  EXPECT_EQ(config.model.name, "dbnet");
  EXPECT_EQ(config.parallel.mode, "data_parallel");
  EXPECT_EQ(config.system.work_dir, "./tmp_det");
  EXPECT_EQ(config.train.epochs, 1200);
  EXPECT_EQ(config.train.accumulate, 2);
  EXPECT_EQ(config.optimizer.name, "momentum");
  EXPECT_DOUBLE_EQ(config.optimizer.lr, 0.007);
  EXPECT_EQ(config.scheduler.name, "polynomial");
  EXPECT_EQ(config.data.batch_size, 10);
  EXPECT_EQ(config.data.eval_batch_size, 1);
  EXPECT_EQ(config.data.workers, 8);
  EXPECT_EQ(config.loss_scaler.type, "none");  // full precision scales nothing
  EXPECT_EQ(config.data.train_transforms.items.size(), 9U);
  EXPECT_EQ(config.data.eval_transforms.items.size(), 4U);
}

TEST(ConvertMindocr, CarriesCrnnWithoutLoss) {
  std::vector<std::string> lost;
  const auto config = read(kCrnn, &lost);
  EXPECT_THAT(lost, IsEmpty());
  EXPECT_EQ(config.model.name, "crnn_resnet34");
  EXPECT_EQ(config.data.name, "words");
  EXPECT_EQ(config.loss_scaler.type, "static");
  EXPECT_EQ(config.scheduler.name, "cosine");
  EXPECT_EQ(config.checkpoint.keep, 5);
  EXPECT_THAT(config.optimizer.no_decay, ElementsAre("norms", "biases"));
}

TEST(ConvertMindocr, ListsWhatItCannotCarry) {
  const auto converted = ocr::convert_mindocr(parse_yaml(
      "model: {type: det, backbone: {name: det_resnet50}, head: {name: DBHead, adaptive: False}}\n"
      "optimizer: {opt: lion}\n"
      "train:\n  mosaic: 0.5\n  dataset: {transform_pipeline: [{RandomRotate: {degrees: [-10, 10], p: 0.5}}, Blur]}\n",
      "theirs.yaml"));
  EXPECT_THAT(converted.lost,
              testing::UnorderedElementsAre(HasSubstr("model.head.adaptive (line 1)"),
                                            HasSubstr("optimizer.opt (lion)"), HasSubstr("train.mosaic (line 4)"),
                                            HasSubstr("RandomRotate.p"), HasSubstr("the transform Blur")));
  EXPECT_THAT(ocr::converted_text(converted, "theirs.yaml"), HasSubstr("# Not carried: train.mosaic (line 4)"));
}

TEST(ConvertMindocr, ListsWhatSaysNothingHere) {
  const auto converted = ocr::convert_mindocr(parse_yaml(kDbnet, "theirs.yaml"));
  EXPECT_THAT(converted.passed_over,
              testing::IsSupersetOf({HasSubstr("loss_scaler (nothing is scaled in full precision)"),
                                     HasSubstr("eval.ckpt_load_path (use lockstep eval --weights FILE)"),
                                     HasSubstr("system.mode"), HasSubstr("train.dataset.output_columns")}));
  EXPECT_THAT(ocr::converted_text(converted, "theirs.yaml"),
              testing::AllOf(HasSubstr("# Ignored, as it has no effect here: "), HasSubstr("system.mode, ")));
}

/// `text` with `to` in the place of each `from`.
std::string with(std::string text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

TEST(ConvertMindocr, TakesListsOfFilesOrRefusesThemItself) {
  const auto one = with(kDbnet, "label_file: ic15/train/det_gt.txt", "label_file: [ic15/train/det_gt.txt]");
  EXPECT_THAT(ocr::converted_text(ocr::convert_mindocr(parse_yaml(one, "theirs.yaml")), "theirs.yaml"),
              HasSubstr("train: ic15/train/det_gt.txt"));
  expect_error(ErrorKind::config, {"train.dataset.label_file", "list of 2", "data.train is one", "(line ", "cat A B"},
               [] { read(with(kDbnet, "label_file: ic15/train/det_gt.txt", "label_file: [a.txt, b.txt]")); });
  expect_error(ErrorKind::config, {"eval.dataset.data_dir", "data.eval_pictures is one"},
               [] { read(with(kDbnet, "data_dir: ic15/test/images", "data_dir: [a, b]")); });
  std::vector<std::string> lost;
  read(with(kCrnn, "data_dir: training/", "data_dir: [MJ, ST]"), &lost);
  EXPECT_THAT(lost, IsEmpty());
  const auto words =
      with(with(kCrnn, "type: LMDBDataset", "type: RecDataset"), "label_file: null", "label_file: [a.txt, b.txt]");
  const auto text = ocr::converted_text(ocr::convert_mindocr(parse_yaml(words, "theirs.yaml")), "theirs.yaml");
  EXPECT_THAT(text, testing::AllOf(HasSubstr("a.txt"), HasSubstr("b.txt"), HasSubstr("train_images: training/")));
  read(words);
  // A list where one text is expected is left, and so listed.
  EXPECT_THAT(ocr::convert_mindocr(parse_yaml(with(kDbnet, "amp_level: 'O0'", "amp_level: [O0, O2]"), "t.yaml")).lost,
              ElementsAre(HasSubstr("system.amp_level (line ")));
}

TEST(ConvertMindocr, GivesWeightsToKeysThatAreThere) {
  const auto converted = [](const std::string& text) { return ocr::convert_mindocr(parse_yaml(text, "theirs.yaml")); };
  const auto reader = with(kCrnn, "pretrained: False", "pretrained: resnet34.ckpt");
  EXPECT_THAT(converted(reader).lost, ElementsAre(testing::AllOf(HasSubstr("model.backbone.pretrained (resnet34.ckpt"),
                                                                 HasSubstr("model.weights"))));
  read(reader);
  const auto whole = converted(with(kCrnn, "type: rec\n", "type: rec\n  pretrained: https://a/crnn.ckpt\n"));
  EXPECT_THAT(whole.notes, ElementsAre(HasSubstr("give model.weights the path of that .ckpt")));
  EXPECT_THAT(converted(kDbnet).notes, ElementsAre(HasSubstr("torchvision's weights of that ResNet")));
}

TEST(ConvertMindocr, RefusesOtherFiles) {
  expect_error(ErrorKind::config, {"model.type", "none"}, [] { ocr::convert_mindocr(parse_yaml("a: 1", "a.yaml")); });
  expect_error(ErrorKind::config, {"model.type", "'table'"},
               [] { ocr::convert_mindocr(parse_yaml("model: {type: table}", "a.yaml")); });
}

std::vector<std::filesystem::path> files_in(const std::string& folder) {
  const auto path = std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "tests/ocr/mindocr/files" / folder;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

/// What may be lost of a file, by the beginning of its name.
std::vector<std::string> allowed_losses(const std::string& name) {
  if (name.starts_with("db_mobilenetv3")) return {"system.val_start_epoch"};
  if (name == "db_r50_icdar15_8p.yaml") return {"scheduler.decay_epochs"};
  return {};
}

TEST(ConvertMindocr, CarriesEachFileOfDbnetAndCrnn) {
  const auto detectors = files_in("det"), readers = files_in("rec");
  ASSERT_EQ(detectors.size(), 15U);
  ASSERT_EQ(readers.size(), 5U);
  auto files = detectors;
  files.insert(files.end(), readers.begin(), readers.end());
  for (const auto& file : files) {
    SCOPED_TRACE(file.filename().string());
    std::vector<std::string> lost;
    const auto config = read(read_text(file), &lost);
    const auto allowed = allowed_losses(file.filename().string());
    ASSERT_EQ(lost.size(), allowed.size()) << testing::PrintToString(lost);
    for (std::size_t i = 0; i < lost.size(); ++i) EXPECT_THAT(lost[i], HasSubstr(allowed[i]));
    EXPECT_THAT(config.model.name, testing::AnyOf("dbnet", "crnn_resnet34", "crnn_vgg7"));
  }
}

TEST(ConvertMindocr, RefusesModelsThatAreNotHereByName) {
  const auto refused = [](const std::string& model, std::initializer_list<std::string_view> words) {
    expect_error(ErrorKind::config, words,
                 [&] { ocr::convert_mindocr(parse_yaml("model: {" + model + "}", "theirs.yaml")); });
  };
  const std::string det = "type: det, backbone: {name: det_resnet50}, ",
                    rec = "type: rec, backbone: {name: rec_resnet34}, ";
  refused(det + "neck: {name: PSEFPN}, head: {name: PSEHead}", {"PSENet", "DBNet", "CRNN", "det_mobilenet_v3"});
  refused("type: det, backbone: {name: east_resnet50}, neck: {name: EASTFPN}, head: {name: EASTHead}", {"EAST"});
  refused(det + "neck: {name: DBFPN, use_asf: True}, head: {name: DBHead}", {"DBNet++"});
  refused("type: det, backbone: {name: det_resnet152}, neck: {name: DBFPN}, head: {name: DBHead}", {"det_resnet152"});
  refused(det + "head: {name: NewHead}", {"model.head.name", "NewHead"});
  refused(rec + "head: {name: AttentionHead}", {"RARE"});
  refused("type: rec, transform: {name: STN_ON}, backbone: {name: SVTRNet}, head: {name: CTCHead}", {"SVTR"});
  refused("type: rec, backbone: {name: rec_master_resnet31}, head: {name: MasterDecoder}", {"MASTER"});
  refused("type: rec, backbone: {name: visionlan_resnet}, head: {name: VisionLANHead}", {"VisionLAN"});
  refused("type: rec, backbone: {name: rec_resnet31}, head: {name: RobustScannerHead}", {"RobustScanner"});
  refused("type: rec, backbone: {name: abinet_backbone}, head: {name: ABINetHead}", {"ABINet"});
  for (const auto& file : files_in("others")) {
    expect_error(ErrorKind::config, {file.filename().string().starts_with("db++") ? "DBNet++" : "PP-OCRv3"},
                 [&] { ocr::convert_mindocr(parse_yaml(read_text(file), "theirs.yaml")); });
  }
}

/// A configuration with these steps of evaluation.
train::ResolvedRun with_eval_steps(const std::string& type, const std::string& steps) {
  const std::string model = type == "det" ? "backbone: {name: det_resnet18}" : "backbone: {name: rec_vgg7}";
  return read("model: {type: " + type + ", " + model +
              "}\nscheduler: {scheduler: constant, lr: 0.1, num_epochs: 2}\noptimizer: {opt: adam}\n"
              "train: {dataset: {dataset_root: r, data_dir: d, label_file: l}, loader: {batch_size: 2}}\n"
              "eval: {dataset: {data_dir: d, label_file: l, transform_pipeline: [" +
              steps + "]}}\n");
}

TEST(ConvertMindocr, KeepsTheSizesOfEvaluation) {
  const auto first = [](const train::ResolvedRun& config) {
    return print_yaml(config.data.eval_transforms.items.at(0));
  };
  const auto infer = with_eval_steps(
      "rec",
      "DecodeImage, {RecResizeNormForInfer: {target_height: 32, target_width: 100, keep_ratio: False}}, ToCHWImage");
  EXPECT_THAT(first(infer), testing::AllOf(HasSubstr("resize:"), HasSubstr("100")));
  EXPECT_THAT(print_yaml(infer.data.eval_transforms.items.at(1)),
              testing::AllOf(HasSubstr("normalize"), HasSubstr("127")));
  EXPECT_EQ(infer.data.eval_transforms.items.size(), 3U);
  EXPECT_THAT(first(with_eval_steps("rec", "{RecResizeNormForInfer: {padding: True, norm_before_pad: True}}")),
              testing::AllOf(HasSubstr("resize_to_height"), HasSubstr("320"), HasSubstr("fill: 127\n")));
  EXPECT_THAT(first(with_eval_steps("det",
                                    "{DetResize: {target_size: [1152, 2048], keep_ratio: True, padding: True}}, "
                                    "NormalizeImage, ToCHWImage")),
              testing::AllOf(HasSubstr("text_resize"), HasSubstr("keep_ratio: true")));
  EXPECT_THAT(
      first(with_eval_steps("det", "{DetResize: {target_size: [736, 1280], keep_ratio: False}}, NormalizeImage")),
      testing::Not(HasSubstr("keep_ratio")));
}

}  // namespace
}  // namespace lockstep::test
