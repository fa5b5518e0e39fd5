// The data set text_boxes: labels are read at the start, photographs on access to a sample.
#include <apps/ocr/detection/text_boxes.h>

#include <apps/ocr/detection/text_labels.h>
#include <apps/ocr/detection/word_tensors.h>
#include <lockstep/base/error.h>
#include <lockstep/data/files/items.h>
#include <lockstep/data/pictures.h>
#include <lockstep/samples/pictures.h>

#include <ATen/ATen.h>

#include <filesystem>
#include <utility>
#include <vector>

namespace lockstep::ocr {
namespace {

namespace fs = std::filesystem;

class TextBoxes final : public samples::Dataset {
 public:
  TextBoxes(std::vector<LabelledPicture> pictures, fs::path folder, const TextBoxesOptions& options)
      : pictures_(std::move(pictures)), folder_(std::move(folder)), options_(options) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(pictures_.size()); }

  samples::Sample get(std::int64_t index, const samples::Chance&) const override {
    const auto& labelled = pictures_[static_cast<std::size_t>(index)];
    const auto path = (folder_ / labelled.name).string();
    data::Picture picture;
    try {
      picture = data::read_picture(path, {.channels = 3,
                                          .orientation = options_.orientation,
                                          .max_pixels = options_.max_pixels,
                                          .max_scans = options_.max_scans});
    } catch (const Error& error) {
      const Error placed(error.kind(), error.where(), error.message(), {labelled.label_file, labelled.line});
      throw leaves_out_errors() ? placed : data::naming_way_out(placed);
    }
    samples::Sample sample;
    sample.tensors.emplace(
        kFrame,
        at::tensor({static_cast<double>(picture.height), static_cast<double>(picture.width), 1.0, 1.0}, at::kDouble));
    sample.tensors.emplace(samples::kPictures, samples::to_tensor(std::move(picture)));
    set_words(sample, labelled.words);
    sample.tensors.emplace(kTruth, polygons_of(labelled.words));
    sample.tensors.emplace(kTruthIgnored, ignored_of(labelled.words));
    sample.texts.emplace(samples::kNames, path);
    return sample;
  }

  samples::Batch collate(std::vector<samples::Sample> samples) const override {
    using samples::Collate;
    return samples::collate(std::move(samples), {{kPolygons, Collate::list},
                                                 {kIgnored, Collate::list},
                                                 {kTruth, Collate::list},
                                                 {kTruthIgnored, Collate::list}});
  }

  bool leaves_out_errors() const override { return options_.on_error == "skip"; }

 private:
  std::vector<LabelledPicture> pictures_;
  fs::path folder_;
  TextBoxesOptions options_;
};

/// `root`, or its folder `detection` if only that has the labels.
fs::path root_with(const std::string& labels, const TextBoxesOptions& options) {
  const fs::path root = options.root, below = root / "detection";
  std::error_code error;
  return !fs::exists(root / labels, error) && fs::exists(below / labels, error) ? below : root;
}

}  // namespace

void describe(ConfigFields& fields, TextBoxesOptions& options) {
  fields.field("root", options.root, required(a_path()),
               "folder that the other paths are relative to, or whose folder `detection` is");
  fields.field("train", options.train, required(a_path()),
               "label file of the training pictures: a line each, name, tab, JSON; or folder with ICDAR's gt_NAME.txt");
  fields.field("train_pictures", options.train_pictures, a_path(), "folder of the training pictures");
  fields.field("eval", options.eval, a_path(), "as `train`, for evaluation; empty: no evaluation");
  fields.field("eval_pictures", options.eval_pictures, a_path(), "folder of the pictures for evaluation");
  fields.field("labels", options.labels, one_of({"auto", "list", "icdar2015", "mlt", "icdar2013"}),
               "form of the labels: list is MindOCR's and PaddleOCR's file; the others are lines of gt_NAME.txt, "
               "x1,...,y4,TEXT, x1,...,y4,SCRIPT,TEXT, or left top right bottom \"TEXT\"; auto: as most lines are");
  fields.field("orientation", options.orientation, anything(), "turn pictures by their EXIF orientation");
  samples::describe_picture_limits(fields, options.max_pixels, options.max_scans);
  data::describe_on_error(fields, options.on_error);
}

std::shared_ptr<const samples::Dataset> load_text_boxes(const TextBoxesOptions& options, data::Split split) {
  const bool trains = split == data::Split::train;
  if (!trains && options.eval.empty()) return nullptr;
  const auto& labels = trains ? options.train : options.eval;
  const auto* key = trains ? "data.train" : "data.eval";
  const auto root = root_with(labels, options);
  const auto file = root / labels;
  const auto folder = root / (trains ? options.train_pictures : options.eval_pictures);
  data::BadItems bad(options.on_error == "skip", "labels of " + file.string());
  const LabelReading reading{key, options.labels, bad};
  auto pictures = fs::is_directory(file) ? read_icdar_folder(file, folder, reading) : read_label_file(file, reading);
  bad.report(static_cast<std::int64_t>(pictures.size()) + bad.count());
  if (pictures.empty()) fail(ErrorKind::config, key, "{} has labels of no picture", file.string());
  return std::make_shared<TextBoxes>(std::move(pictures), folder, options);
}

}  // namespace lockstep::ocr
