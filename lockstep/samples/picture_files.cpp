// A data set of unlabelled picture files, listed once and decoded one by one, for predictions.
#include <lockstep/samples/picture_files.h>

#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/samples/picture_sample.h>
#include <lockstep/samples/pictures.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::samples {
namespace {

namespace fs = std::filesystem;

class PictureFiles final : public Dataset {
 public:
  PictureFiles(std::vector<std::string> files, bool skips) : files_(std::move(files)), skips_(skips) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }

  Sample get(std::int64_t index, const Chance&) const override {
    const auto& file = files_[static_cast<std::size_t>(index)];
    Sample sample;
    sample.tensors.emplace(kPictures, to_tensor(data::read_picture(file, {})));
    sample.texts.emplace(kNames, file);
    return sample;
  }

  Batch collate(std::vector<Sample> samples) const override { return collate_pictures(std::move(samples), {}); }
  std::vector<std::pair<std::string, std::string>> known_as(std::int64_t index) const override {
    return {{"file", files_[static_cast<std::size_t>(index)]}};
  }
  bool leaves_out_errors() const override { return skips_; }

 private:
  std::vector<std::string> files_;
  bool skips_;
};

/// Appends the pictures of a folder; how many folders in it were not looked into.
std::int64_t add_pictures_in(const fs::path& folder, bool subfolders, std::vector<std::string>& files) {
  std::int64_t passed_over = 0;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const bool is_hidden = entry->path().filename().string().starts_with('.');
    if (entry->is_directory()) {
      if (subfolders && !is_hidden) add_pictures_in(entry->path(), subfolders, files);
      if (!subfolders && !is_hidden) ++passed_over;
    } else if (data::has_picture_name(entry->path().string())) {
      files.push_back(entry->path().string());
    }
  }
  if (error) {
    fail(ErrorKind::invalid_argument, "pictures", "the folder {} cannot be read: {}", folder.string(), error.message());
  }
  return passed_over;
}

}  // namespace

std::shared_ptr<const Dataset> load_picture_files(const fs::path& path, const PictureFilesOptions& options) {
  std::vector<std::string> files;
  std::error_code error;
  std::int64_t passed_over = 0;
  if (fs::is_regular_file(path, error)) {
    files.push_back(path.string());
  } else {
    passed_over = add_pictures_in(path, options.subfolders, files);
  }
  if (files.empty()) {
    fail(ErrorKind::invalid_argument, "pictures", "{} has no file named .jpg, .jpeg or .png{}", path.string(),
         passed_over > 0 ? "; it has folders, into which --subfolders looks" : "");
  }
  if (passed_over > 0)
    log_warning("{}: {} folders in it are not looked into (--subfolders)", path.string(), passed_over);
  std::ranges::sort(files);
  return std::make_shared<PictureFiles>(std::move(files), options.skips);
}

std::shared_ptr<const Dataset> listed_picture_files(std::vector<std::string> files, bool skips) {
  if (files.empty()) fail(ErrorKind::invalid_argument, "pictures", "the list of pictures is empty");
  return std::make_shared<PictureFiles>(std::move(files), skips);
}

}  // namespace lockstep::samples
