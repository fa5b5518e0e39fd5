#include <lockstep/base/error.h>
#include <lockstep/base/parse.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/data/files/lmdb.h>
#include <lockstep/samples/image_lmdb.h>
#include <lockstep/samples/pictures.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace lockstep::samples {
namespace {

std::string_view text_of_value(std::span<const std::uint8_t> value) {
  return {reinterpret_cast<const char*>(value.data()), value.size()};
}

class ImageLmdb final : public Dataset {
 public:
  ImageLmdb(const ImageLmdbOptions& options, ClassList classes) : options_(options), classes_(std::move(classes)) {}

  /// Appends a database.
  void add(data::LmdbFile file) {
    const auto& view = file.view();
    const auto text = value_of(view, "num-samples");
    const auto count = parse_integer(text_of_value(text));
    if (!count || *count < 0) {
      fail(ErrorKind::data, "data", "num-samples of {} should be a number, not '{}'", view.name(),
           cut_text(text_of_value(text)));
    }
    if (static_cast<std::uint64_t>(*count) > view.entries()) {
      fail(ErrorKind::data, "data", "num-samples of {} is {}, but it has {} keys in all", view.name(), *count,
           view.entries());
    }
    size_ += *count;
    ends_.push_back(size_);
    files_.push_back(std::move(file));
  }

  std::int64_t size() const override { return size_; }

  Sample get(std::int64_t index, const Chance&) const override {
    const auto set = static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
    const auto number = index - (set == 0 ? 0 : ends_[set - 1]) + 1;
    const auto& view = files_[set].view();
    const auto name = fmt::format("image-{:09} of {}", number, view.name());
    const auto label_key = fmt::format("label-{:09}", number);
    Sample sample;
    sample.tensors.emplace(kPictures, to_tensor(data::decode_picture(value_of(view, fmt::format("image-{:09}", number)),
                                                                     decoding_of(options_.pictures), name)));
    try {
      add_label(sample, text_of_value(value_of(view, label_key)), options_.labels, classes_);
    } catch (const Error& error) {
      throw Error(error.kind(), error.where(), fmt::format("{} of {}: {}", label_key, view.name(), error.message()));
    }
    sample.texts.emplace(kNames, name);
    return sample;
  }

  Batch collate(std::vector<Sample> samples) const override {
    return collate_pictures(std::move(samples), options_.pictures);
  }
  std::vector<std::string> classes() const override { return classes_.names(); }
  bool leaves_out_errors() const override { return options_.pictures.on_error == "skip"; }

 private:
  static std::span<const std::uint8_t> value_of(const data::LmdbView& view, std::string_view key) {
    if (const auto value = view.find(key)) return *value;
    fail(ErrorKind::data, "data",
         "{} has no key '{}'; it should have num-samples, and image-%09d and label-%09d from 1 "
         "to that number",
         view.name(), key);
  }

  ImageLmdbOptions options_;
  ClassList classes_;
  std::vector<data::LmdbFile> files_;
  std::vector<std::int64_t> ends_;  // samples of the files up to and with each
  std::int64_t size_ = 0;
};

/// The databases of a folder, or of those below it, sorted.
std::vector<std::filesystem::path> databases_in(const std::filesystem::path& folder, std::string_view key) {
  namespace fs = std::filesystem;
  std::error_code code;
  if (!fs::is_directory(folder, code) || fs::exists(folder / "data.mdb", code)) return {folder};
  std::vector<fs::path> found;
  for (auto entry = fs::recursive_directory_iterator(folder, code);
       !code && entry != fs::recursive_directory_iterator(); entry.increment(code)) {
    if (entry->path().filename() == "data.mdb") found.push_back(entry->path());
  }
  if (code) fail(ErrorKind::io, key, "cannot list the folder {}: {}", folder.string(), code.message());
  if (found.empty()) fail(ErrorKind::config, key, "there is no data.mdb in {} or below it", folder.string());
  std::ranges::sort(found);
  return found;
}

}  // namespace

void describe(ConfigFields& fields, ImageLmdbOptions& options) {
  fields.field("train", options.train, required(a_path()), "folder of an LMDB database, or of several below it");
  fields.field("eval", options.eval, a_path(), "the same for evaluation; empty: no evaluation");
  describe_labels(fields, options.labels);
  describe_pictures(fields, options.pictures);
}

std::shared_ptr<const Dataset> load_image_lmdb(const ImageLmdbOptions& options, data::Split split) {
  const bool trains = split == data::Split::train;
  if (!trains && options.eval.empty()) return nullptr;
  if (options.labels.label == "class" && options.labels.classes.empty()) {
    fail(ErrorKind::config, "data.classes", "is empty, and data.label is class: give the names of the classes");
  }
  const auto* key = trains ? "data.train" : "data.eval";
  auto dataset = std::make_shared<ImageLmdb>(options, ClassList(options.labels.classes, "data.classes"));
  for (const auto& path : databases_in(trains ? options.train : options.eval, key)) {
    dataset->add(data::LmdbFile(path, key));
  }
  return dataset;
}

}  // namespace lockstep::samples
