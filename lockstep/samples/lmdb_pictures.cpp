// Lookup of encoded pictures and labels by number across LMDB databases (keys num-samples, image-%09d, label-%09d).
#include <lockstep/samples/lmdb_pictures.h>

#include <lockstep/base/error.h>
#include <lockstep/base/parse.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/data/files/picture_folder.h>

#include <fmt/format.h>

#include <algorithm>

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

LmdbPictures::LmdbPictures(const std::filesystem::path& path, std::string_view key_of_path) {
  for (const auto& each : databases_in(path, key_of_path)) {
    data::LmdbFile file(each, key_of_path);
    ends_.push_back(size() + samples_of(file.view()));
    files_.push_back(std::move(file));
  }
}

data::Picture LmdbPictures::picture(std::int64_t index, const data::DecodeOptions& options) const {
  const auto [view, number] = place_of(index);
  return data::decode_picture(value_of(*view, picture_key(number)), options, picture_name(index));
}

std::string_view LmdbPictures::label(std::int64_t index) const {
  const auto [view, number] = place_of(index);
  return text_of_value(value_of(*view, label_key(number)));
}

std::string LmdbPictures::picture_name(std::int64_t index) const {
  const auto [view, number] = place_of(index);
  return fmt::format("{} of {}", picture_key(number), view->name());
}

std::string LmdbPictures::label_name(std::int64_t index) const {
  const auto [view, number] = place_of(index);
  return fmt::format("{} of {}", label_key(number), view->name());
}

std::string LmdbPictures::picture_path(std::int64_t index) const {
  const auto [view, number] = place_of(index);
  return fmt::format("{}/{}", view->name(), picture_key(number));
}

std::pair<const data::LmdbView*, std::int64_t> LmdbPictures::place_of(std::int64_t index) const {
  const auto file = static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
  return {&files_[file].view(), index - (file == 0 ? 0 : ends_[file - 1]) + 1};
}

}  // namespace lockstep::samples
