// A data set of unlabelled picture files, listed once and decoded one by one, for predictions.
#include <lockstep/samples/picture_files.h>

#include <lockstep/base/error.h>
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
  explicit PictureFiles(std::vector<std::string> files) : files_(std::move(files)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }

  Sample get(std::int64_t index, const Chance&) const override {
    const auto& file = files_[static_cast<std::size_t>(index)];
    Sample sample;
    sample.tensors.emplace(kPictures, to_tensor(data::read_picture(file, {})));
    sample.texts.emplace(kNames, file);
    return sample;
  }

  Batch collate(std::vector<Sample> samples) const override { return collate_pictures(std::move(samples), {}); }

 private:
  std::vector<std::string> files_;
};

}  // namespace

std::shared_ptr<const Dataset> load_picture_files(const fs::path& path) {
  std::vector<std::string> files;
  std::error_code error;
  if (fs::is_regular_file(path, error)) {
    files.push_back(path.string());
  } else {
    for (const auto& entry : fs::directory_iterator(path, error)) {
      if (data::has_picture_name(entry.path().string())) files.push_back(entry.path().string());
    }
    if (error) {
      fail(ErrorKind::invalid_argument, "pictures", "the folder {} cannot be read: {}", path.string(), error.message());
    }
  }
  if (files.empty()) {
    fail(ErrorKind::invalid_argument, "pictures", "{} has no file named .jpg, .jpeg or .png", path.string());
  }
  std::ranges::sort(files);
  return std::make_shared<PictureFiles>(std::move(files));
}

}  // namespace lockstep::samples
