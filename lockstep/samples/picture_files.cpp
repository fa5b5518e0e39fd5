#include <lockstep/samples/picture_files.h>

#include <lockstep/base/error.h>
#include <lockstep/data/files/picture_folder.h>
#include <lockstep/samples/picture_sample.h>
#include <lockstep/samples/pictures.h>

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
    data::CountedRemarks remarks;
    try {
      files = data::pictures_in(path, data::FolderDepth::itself, "pictures", remarks);
    } catch (const Error& failed) {
      throw Error(ErrorKind::invalid_argument, "pictures", failed.message());
    }
    remarks.report(path.string());
  }
  if (files.empty()) {
    fail(ErrorKind::invalid_argument, "pictures", "{} has no file named {}", path.string(), data::picture_endings());
  }
  return std::make_shared<PictureFiles>(std::move(files));
}

}  // namespace lockstep::samples
