// Data sets of picture files that are listed once and decoded one by one: image_folder, sorted by class folders, and
// files without labels, for predictions.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/data/files/items.h>
#include <lockstep/samples/changed_dataset.h>
#include <lockstep/samples/pictures.h>

#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace lockstep::samples {
namespace {

namespace fs = std::filesystem;

struct PictureFile {
  std::string path;
  std::optional<std::int64_t> label;
};

class PictureFiles final : public Dataset {
 public:
  /// `way_out`: how a user leaves out files that cannot be read.
  PictureFiles(std::vector<PictureFile> files, ClassList classes, PictureOptions options, std::string_view way_out)
      : files_(std::move(files)), classes_(std::move(classes)), options_(std::move(options)), way_out_(way_out) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }

  Sample get(std::int64_t index, const Chance&) const override {
    const auto& [path, label] = files_[static_cast<std::size_t>(index)];
    Sample sample{.tensors = {}, .texts = {{kNames, path}}};
    if (label) sample.tensors.emplace(kLabels, at::scalar_tensor(*label, at::kLong));
    const auto read = [&] { return data::read_picture(path, decoding_of(options_)); };
    sample.tensors.emplace(kPictures, to_tensor(data::read_or_name_way_out(leaves_out_errors(), read, way_out_)));
    return sample;
  }

  Batch collate(std::vector<Sample> samples) const override { return collate_pictures(std::move(samples), options_); }
  std::vector<std::string> classes() const override { return classes_.names(); }
  std::vector<std::pair<std::string, std::string>> known_as(std::int64_t index) const override {
    return {{"file", files_[static_cast<std::size_t>(index)].path}};
  }
  bool leaves_out_errors() const override { return options_.on_error == "skip"; }

 private:
  std::vector<PictureFile> files_;
  ClassList classes_;
  PictureOptions options_;
  std::string_view way_out_;
};

std::shared_ptr<const Dataset> unlabelled(std::vector<std::string> names, bool skips) {
  std::vector<PictureFile> files;
  for (auto& name : names) files.push_back({std::move(name), std::nullopt});
  PictureOptions options;
  if (skips) options.on_error = "skip";
  return std::make_shared<PictureFiles>(std::move(files), ClassList(), std::move(options), "--on-error skip");
}

/// The folders of classes. Error(config) naming `key` when there are none, or `folder` cannot be listed.
std::vector<std::string> class_folders(const fs::path& folder, std::string_view key, data::CountedRemarks& remarks) {
  std::vector<std::string> names;
  try {
    names = data::folders_in(folder, key, remarks);
  } catch (const Error& error) {
    fail(ErrorKind::config, key, "{}{}", error.message(),
         key == "data.eval" ? "; give the folder of evaluation pictures, or '' for no evaluation" : "");
  }
  if (names.empty()) {
    fail(ErrorKind::config, key, "the folder {} has no folders of classes; give one that has CLASS/PICTURE.jpg",
         folder.string());
  }
  return names;
}

}  // namespace

void describe(ConfigFields& fields, ImageFolderOptions& options) {
  fields.field("root", options.root, required(a_path()), "folder with the folders of training and of evaluation");
  fields.field("train", options.train, a_path(), "folder in root with a folder for each class");
  fields.field("eval", options.eval, a_path(), "the same for evaluation; empty: no evaluation");
  fields.field("classes", options.classes, anything(),
               "names of the classes in the order of their numbers; empty: training's folders, sorted by bytes");
  describe_sampling(fields, options.sampling);
  describe_pictures(fields, options.pictures);
}

std::shared_ptr<const Dataset> load_image_folder(const ImageFolderOptions& options, data::Split split) {
  const bool trains = split == data::Split::train;
  if (!trains && options.eval.empty()) return nullptr;
  const auto train = in_folder(options.root, options.train);
  data::CountedRemarks of_classes, remarks;
  const ClassList classes(options.classes.empty() ? class_folders(train, "data.train", of_classes) : options.classes,
                          "data.classes");
  const auto folder = trains ? train : in_folder(options.root, options.eval);
  std::vector<PictureFile> files;
  data::BadItems bad(options.pictures.on_error == "skip", "folders of classes");
  const auto names = class_folders(folder, trains ? "data.train" : "data.eval", remarks);
  for (const auto& name : names) {
    bad.try_to([&] {
      auto pictures = data::pictures_in(folder / name, data::FolderDepth::all_below, "data", remarks);
      const auto label = classes.number_of(name);
      for (auto& picture : pictures) files.push_back({std::move(picture), label});
      if (!pictures.empty()) return;
      fail(ErrorKind::data, "data", "the class folder {} has no pictures ({})", (folder / name).string(),
           data::picture_endings());
    });
  }
  bad.report(static_cast<std::int64_t>(names.size()));
  remarks.report(folder.string());
  std::vector<std::int64_t> labels;
  for (const auto& file : files) labels.push_back(*file.label);
  return with_sampling(
      std::make_shared<PictureFiles>(std::move(files), classes, options.pictures, "data.on_error=skip"),
      options.sampling, split, labels);
}

std::shared_ptr<const Dataset> load_picture_files(const fs::path& path, const PictureFilesOptions& options) {
  std::vector<std::string> files;
  std::error_code error;
  std::int64_t passed_over = 0;
  if (fs::is_regular_file(path, error)) {
    files.push_back(path.string());
  } else {
    data::CountedRemarks remarks;
    try {
      const auto depth = options.subfolders ? data::FolderDepth::all_below : data::FolderDepth::itself;
      files = data::pictures_in(path, depth, "pictures", remarks);
      data::CountedRemarks counted_above;
      if (!options.subfolders) passed_over = std::ssize(data::folders_in(path, "pictures", counted_above));
    } catch (const Error& failed) {
      throw Error(ErrorKind::invalid_argument, "pictures", failed.message());
    }
    remarks.report(path.string());
  }
  if (files.empty()) {
    fail(ErrorKind::invalid_argument, "pictures", "{} has no file named {}{}", path.string(), data::picture_endings(),
         passed_over > 0 ? "; it has folders, which --subfolders searches" : "");
  }
  if (passed_over > 0) log_warning("{}: {} folders in it are not searched (--subfolders)", path.string(), passed_over);
  return unlabelled(std::move(files), options.skips);
}

std::shared_ptr<const Dataset> listed_picture_files(std::vector<std::string> files, bool skips) {
  if (files.empty()) fail(ErrorKind::invalid_argument, "pictures", "the list of pictures is empty");
  return unlabelled(std::move(files), skips);
}

}  // namespace lockstep::samples
