// The data set image_lmdb: pictures and labels of LMDB databases as samples, looked up by number across databases (keys
// num-samples, image-%09d, label-%09d).
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/data/files/items.h>
#include <lockstep/data/files/lmdb.h>
#include <lockstep/samples/pictures.h>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::samples {
namespace {

std::string_view text_of_value(std::span<const std::uint8_t> value) {
  return {reinterpret_cast<const char*>(value.data()), value.size()};
}

std::string picture_key(std::int64_t number) { return fmt::format("image-{:09}", number); }
std::string label_key(std::int64_t number) { return fmt::format("label-{:09}", number); }

std::span<const std::uint8_t> value_of(const data::LmdbView& view, std::string_view key) {
  if (const auto value = view.find(key)) return *value;
  fail(ErrorKind::data, "data",
       "{} has no key '{}'; it should have num-samples, and image-%09d and label-%09d from 1 to that number",
       view.name(), key);
}

std::int64_t samples_of(const data::LmdbView& view) {
  const auto text = text_of_value(value_of(view, "num-samples"));
  const auto count = parse_integer(text);
  if (!count || *count < 0) {
    fail(ErrorKind::data, "data", "num-samples of {} should be a number, not '{}'", view.name(), cut_text(text));
  }
  if (static_cast<std::uint64_t>(*count) > view.entries()) {
    fail(ErrorKind::data, "data", "num-samples of {} is {}, but it has {} keys in all", view.name(), *count,
         view.entries());
  }
  return *count;
}

std::vector<std::filesystem::path> databases_in(const std::filesystem::path& folder, std::string_view key) {
  namespace fs = std::filesystem;
  std::error_code code;
  if (!fs::is_directory(folder, code) || fs::exists(folder / "data.mdb", code)) return {folder};
  std::vector<fs::path> found;
  for (auto entry = fs::recursive_directory_iterator(folder, code);
       !code && entry != fs::recursive_directory_iterator(); entry.increment(code)) {
    if (data::is_left_by_programs(entry->path())) {
      if (entry->is_directory()) entry.disable_recursion_pending();
    } else if (entry->path().filename() == "data.mdb") {
      found.push_back(entry->path());
    }
  }
  if (code) fail(ErrorKind::io, key, "cannot list the folder {}: {}", folder.string(), code.message());
  if (found.empty()) fail(ErrorKind::config, key, "there is no data.mdb in {} or below it", folder.string());
  std::ranges::sort(found);
  return found;
}

}  // namespace

struct LmdbPictures::Files {
  std::vector<data::LmdbFile> files;
  std::vector<std::int64_t> ends;  // samples of the files up to and with each

  std::int64_t size() const { return ends.empty() ? 0 : ends.back(); }

  /// The database of a sample, and its number there, from 1.
  std::pair<const data::LmdbView*, std::int64_t> place_of(std::int64_t index) const {
    const auto file = static_cast<std::size_t>(std::ranges::upper_bound(ends, index) - ends.begin());
    return {&files[file].view(), index - (file == 0 ? 0 : ends[file - 1]) + 1};
  }
};

LmdbPictures::LmdbPictures(const std::filesystem::path& path, std::string_view key_of_path) {
  auto all = std::make_shared<Files>();
  for (const auto& each : databases_in(path, key_of_path)) {
    data::LmdbFile file(each, key_of_path);
    all->ends.push_back(all->size() + samples_of(file.view()));
    all->files.push_back(std::move(file));
  }
  files_ = std::move(all);
}

std::int64_t LmdbPictures::size() const { return files_->size(); }

data::Picture LmdbPictures::picture(std::int64_t index, const data::DecodeOptions& options) const {
  const auto [view, number] = files_->place_of(index);
  return data::decode_picture(value_of(*view, picture_key(number)), options, picture_name(index));
}

std::string_view LmdbPictures::label(std::int64_t index) const {
  const auto [view, number] = files_->place_of(index);
  return text_of_value(value_of(*view, label_key(number)));
}

std::string LmdbPictures::picture_name(std::int64_t index) const {
  const auto [view, number] = files_->place_of(index);
  return fmt::format("{} of {}", picture_key(number), view->name());
}

std::string LmdbPictures::label_name(std::int64_t index) const {
  const auto [view, number] = files_->place_of(index);
  return fmt::format("{} of {}", label_key(number), view->name());
}

std::string LmdbPictures::picture_path(std::int64_t index) const {
  const auto [view, number] = files_->place_of(index);
  return fmt::format("{}/{}", view->name(), picture_key(number));
}

namespace {

class ImageLmdb final : public Dataset {
 public:
  ImageLmdb(const ImageLmdbOptions& options, ClassList classes, LmdbPictures pictures)
      : options_(options), classes_(std::move(classes)), pictures_(std::move(pictures)) {}

  std::int64_t size() const override { return pictures_.size(); }

  Sample get(std::int64_t index, const Chance&) const override {
    return data::read_or_name_way_out(leaves_out_errors(), [&] { return read(index); });
  }

  Batch collate(std::vector<Sample> samples) const override {
    return collate_pictures(std::move(samples), options_.pictures);
  }
  std::vector<std::string> classes() const override { return classes_.names(); }
  std::vector<std::pair<std::string, std::string>> known_as(std::int64_t index) const override {
    return {{"file", pictures_.picture_path(index)}};
  }
  bool leaves_out_errors() const override { return options_.pictures.on_error == "skip"; }

 private:
  Sample read(std::int64_t index) const {
    Sample sample;
    sample.tensors.emplace(kPictures, to_tensor(pictures_.picture(index, decoding_of(options_.pictures))));
    try {
      add_label(sample, pictures_.label(index), options_.labels, classes_);
    } catch (const Error& error) {
      throw Error(error.kind(), error.where(), fmt::format("{}: {}", pictures_.label_name(index), error.message()));
    }
    sample.texts.emplace(kNames, pictures_.picture_name(index));
    return sample;
  }

  ImageLmdbOptions options_;
  ClassList classes_;
  LmdbPictures pictures_;
};

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
  return std::make_shared<ImageLmdb>(options, ClassList(options.labels.classes, "data.classes"),
                                     LmdbPictures(trains ? options.train : options.eval, key));
}

}  // namespace lockstep::samples
