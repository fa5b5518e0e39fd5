// The data set image_folder: a sorted listing of class folders, whose pictures are decoded when a sample is taken.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/data/files/bad_items.h>
#include <lockstep/samples/balanced.h>
#include <lockstep/samples/image_folder.h>
#include <lockstep/samples/pictures.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace lockstep::samples {
namespace {

namespace fs = std::filesystem;

struct LabelledFile {
  std::string path;
  std::int64_t label = 0;
};

class ImageFolder final : public Dataset {
 public:
  ImageFolder(std::vector<LabelledFile> files, ClassList classes, const PictureOptions& options)
      : files_(std::move(files)), classes_(std::move(classes)), options_(options) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }

  Sample get(std::int64_t index, const Chance&) const override {
    const auto& [path, label] = files_[static_cast<std::size_t>(index)];
    Sample sample{.tensors = {{kLabels, at::scalar_tensor(label, at::kLong)}}, .texts = {{kNames, path}}};
    sample.tensors.emplace(kPictures, to_tensor(data::read_picture(path, decoding_of(options_))));
    return sample;
  }

  Batch collate(std::vector<Sample> samples) const override { return collate_pictures(std::move(samples), options_); }
  std::vector<std::string> classes() const override { return classes_.names(); }
  std::vector<std::pair<std::string, std::string>> known_as(std::int64_t index) const override {
    return {{"file", files_[static_cast<std::size_t>(index)].path}};
  }
  bool leaves_out_errors() const override { return options_.on_error == "skip"; }

 private:
  std::vector<LabelledFile> files_;
  ClassList classes_;
  PictureOptions options_;
};

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

/// The subfolders of `folder`, sorted by the bytes of their names. Error(config) naming `key` when it cannot be listed.
std::vector<std::string> folders_in(const fs::path& folder, std::string_view key) {
  std::error_code code;
  std::vector<std::string> names;
  for (auto entry = fs::directory_iterator(folder, code); !code && entry != fs::directory_iterator();
       entry.increment(code)) {
    if (entry->is_directory() && !is_hidden(entry->path())) names.push_back(entry->path().filename().string());
  }
  if (code) {
    fail(ErrorKind::config, key, "cannot list the folder {}: {}{}", folder.string(), code.message(),
         key == "data.eval" ? "; give the folder of evaluation pictures, or '' for no evaluation" : "");
  }
  if (names.empty()) {
    fail(ErrorKind::config, key, "the folder {} has no folders of classes; give one that has CLASS/PICTURE.jpg",
         folder.string());
  }
  std::ranges::sort(names);
  return names;
}

/// Appends the pictures below `folder`, sorted; the number of other files.
std::int64_t add_pictures(const fs::path& folder, std::int64_t label, std::vector<LabelledFile>& files) {
  std::int64_t others = 0;
  std::error_code code;
  std::vector<std::string> paths;
  for (auto entry = fs::recursive_directory_iterator(folder, code);
       !code && entry != fs::recursive_directory_iterator(); entry.increment(code)) {
    if (entry->is_directory() || is_hidden(entry->path())) continue;
    if (data::has_picture_name(entry->path().string())) {
      paths.push_back(entry->path().string());
    } else {
      ++others;
    }
  }
  if (code) fail(ErrorKind::io, "data", "cannot list the folder {}: {}", folder.string(), code.message());
  std::ranges::sort(paths);
  for (auto& path : paths) files.push_back({std::move(path), label});
  return others;
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
  const ClassList classes(options.classes.empty() ? folders_in(train, "data.train") : options.classes, "data.classes");
  const auto folder = trains ? train : in_folder(options.root, options.eval);
  std::vector<LabelledFile> files;
  std::int64_t others = 0;
  data::BadItems bad(options.pictures.on_error == "skip", "folders of classes");
  const auto names = folders_in(folder, trains ? "data.train" : "data.eval");
  for (const auto& name : names) {
    bad.try_to([&] {
      const auto before = files.size();
      others += add_pictures(folder / name, classes.number_of(name), files);
      if (files.size() > before) return;
      fail(ErrorKind::data, "data", "the class folder {} has no pictures (.jpg, .jpeg, .png)",
           (folder / name).string());
    });
  }
  bad.report(static_cast<std::int64_t>(names.size()));
  if (others > 0) log_info("{}: {} files are not pictures by their names and are not read", folder.string(), others);
  std::vector<std::int64_t> labels;
  for (const auto& file : files) labels.push_back(file.label);
  return with_sampling(std::make_shared<ImageFolder>(std::move(files), classes, options.pictures), options.sampling,
                       split, labels);
}

}  // namespace lockstep::samples
