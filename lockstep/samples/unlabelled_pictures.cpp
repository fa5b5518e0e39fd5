// A data set of unlabelled picture files, listed once and decoded one by one, for predictions.
#include <lockstep/data/files/items.h>

#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/data/files/picture_folder.h>
#include <lockstep/samples/pictures.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep::samples {
namespace {

namespace fs = std::filesystem;

class UnlabelledPictures final : public Dataset {
 public:
  UnlabelledPictures(std::vector<std::string> files, bool skips) : files_(std::move(files)), skips_(skips) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }

  Sample get(std::int64_t index, const Chance&) const override {
    const auto& file = files_[static_cast<std::size_t>(index)];
    Sample sample;
    sample.tensors.emplace(kPictures, to_tensor(data::read_or_name_way_out(
                                          skips_, [&] { return data::read_picture(file, {}); }, "--on-error skip")));
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

}  // namespace

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
  return std::make_shared<UnlabelledPictures>(std::move(files), options.skips);
}

std::shared_ptr<const Dataset> listed_picture_files(std::vector<std::string> files, bool skips) {
  if (files.empty()) fail(ErrorKind::invalid_argument, "pictures", "the list of pictures is empty");
  return std::make_shared<UnlabelledPictures>(std::move(files), skips);
}

}  // namespace lockstep::samples
