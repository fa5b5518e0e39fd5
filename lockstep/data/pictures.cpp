// The table of picture formats (CIFAR-10, MNIST), the search for the folder of one, and a split in memory, its records
// slices of one block of bytes.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/text.h>
#include <lockstep/data/format.h>
#include <lockstep/data/picture_sets.h>
#include <lockstep/data/pictures.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

namespace lockstep::data {

namespace fs = std::filesystem;

namespace {

constexpr std::array kFormats{kCifar10, kMnist};

class MemoryPictures final : public Pictures {
 public:
  MemoryPictures(PictureShape shape, int num_classes, SplitContents contents)
      : shape_(shape), num_classes_(num_classes), contents_(std::move(contents)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(contents_.labels.size()); }
  PictureShape shape() const override { return shape_; }
  int num_classes() const override { return num_classes_; }

  Record operator[](std::int64_t index) const override {
    assert(0 <= index && index < size());
    const auto i = static_cast<std::size_t>(index);
    const std::size_t bytes = picture_size(shape_);
    return {std::span(contents_.pixels).subspan(i * bytes, bytes), contents_.labels[i]};
  }

 private:
  PictureShape shape_;
  int num_classes_;
  SplitContents contents_;
};

}  // namespace

std::string to_text(const Problem& problem) {
  if (problem.record < 0) return fmt::format("{}: {}", problem.file.string(), problem.rule);
  return fmt::format("{}: record {} (counted from 0): {}", problem.file.string(), problem.record, problem.rule);
}

std::shared_ptr<const Pictures> make_memory_pictures(PictureShape shape, int num_classes, SplitContents contents) {
  const std::size_t records = contents.labels.size();
  if (records == 0) fail(ErrorKind::data, "data", "a data set needs at least one record");
  if (contents.pixels.size() != records * picture_size(shape)) {
    fail(ErrorKind::data, "data", "{} records of {} x {} x {} need {} bytes, not {}", records, shape.channels,
         shape.height, shape.width, records * picture_size(shape), contents.pixels.size());
  }
  const auto bad = std::find_if(contents.labels.begin(), contents.labels.end(),
                                [&](std::uint8_t label) { return label >= num_classes; });
  if (bad != contents.labels.end()) {
    fail(ErrorKind::data, "data", "record {}: label {} is not below the {} classes", bad - contents.labels.begin(),
         *bad, num_classes);
  }
  return std::make_shared<MemoryPictures>(shape, num_classes, std::move(contents));
}

std::string_view name(Split split) { return split == Split::train ? "train" : "test"; }

std::span<const DatasetFormat> dataset_formats() { return kFormats; }

std::vector<std::string> dataset_names() {
  std::vector<std::string> names;
  names.reserve(kFormats.size());
  for (const DatasetFormat& format : kFormats) names.emplace_back(format.name);
  return names;
}

const DatasetFormat& find_format(std::string_view name) {
  const auto found =
      std::find_if(kFormats.begin(), kFormats.end(), [&](const auto& format) { return format.name == name; });
  if (found != kFormats.end()) return *found;
  const std::vector<std::string> names = dataset_names();
  fail(ErrorKind::invalid_argument, "data", "there is no data set '{}'; known are {}{}", cut_text(name),
       fmt::join(names, ", "), did_you_mean(name, names));
}

bool holds_files_of(const DatasetFormat& format, const fs::path& folder) {
  std::error_code code;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code)) {
    if (format.is_file_name(entry->path().filename().string())) return true;
  }
  return false;
}

std::vector<fs::path> folders_below(const DatasetFormat& format, const fs::path& root) {
  constexpr int kMostEntries = 10000;  // limit for searching a folder that is not a data set's
  std::vector<fs::path> found;
  std::error_code code;
  int seen = 0;
  fs::recursive_directory_iterator entry(root, fs::directory_options::skip_permission_denied, code);
  for (const fs::recursive_directory_iterator end; !code && entry != end && ++seen < kMostEntries;
       entry.increment(code)) {
    if (entry.depth() == 1) entry.disable_recursion_pending();
    std::error_code unknown;
    if (entry->is_directory(unknown) && holds_files_of(format, entry->path())) found.push_back(entry->path());
  }
  std::ranges::sort(found);
  return found;
}

fs::path find_root(const DatasetFormat& format, const fs::path& root) {
  std::error_code code;
  const fs::path around = root.parent_path();
  if (fs::is_directory(root, code)) {
    if (holds_files_of(format, root)) return root;
    const auto below = folders_below(format, root);
    return below.size() == 1 ? below.front() : root;
  }
  const bool exists = fs::exists(root, code);
  if (exists && format.is_file_name(root.filename().string())) return around.empty() ? fs::path(".") : around;
  fail(ErrorKind::invalid_argument, format.name,
       "{} {}; give one that holds {}, or make one with `lockstep data synthesize {}`{}", root.string(),
       exists ? "is not a folder" : "is not a folder: it does not exist", format.folder_holds, format.name,
       holds_files_of(format, around) ? fmt::format("; did you mean {}?", around.string()) : "");
}

Problem missing_file(const DatasetFormat& format, const fs::path& file) {
  const fs::path root = file.parent_path();
  std::string rule = fmt::format("is missing; a right folder holds {}", format.folder_holds);
  auto near = folders_below(format, root);
  if (const fs::path around = root.parent_path(); holds_files_of(format, around)) near.push_back(around);
  const std::string other_form = format.other_form != nullptr ? format.other_form(root) : "";
  for (const auto& folder : near) {
    rule += fmt::format("{}{}", &folder == &near.front() ? "; did you mean " : " or ", folder.string());
  }
  if (!near.empty()) rule += "?";
  if (near.empty() && !other_form.empty()) rule += "; " + other_form;
  return {file, -1, std::move(rule), ErrorKind::invalid_argument};
}

std::shared_ptr<const Pictures> load_pictures(std::string_view name, const fs::path& root, Split split) {
  const DatasetFormat& format = find_format(name);
  const fs::path folder = find_root(format, root);
  if (folder != root) log_info("the {} data set in {} is read from {}", format.name, root.string(), folder.string());
  Problems problems;
  SplitContents contents = format.read(folder, split, problems);
  if (problems.size() == 1) throw Error(problems[0].kind, format.name, to_text(problems[0]));
  if (!problems.empty()) {
    fail(problems[0].kind, format.name, "{} (and {} more; `lockstep data check {}` lists them all)",
         to_text(problems[0]), problems.size() - 1, root.string());
  }
  return make_memory_pictures(format.shape, format.num_classes, std::move(contents));
}

}  // namespace lockstep::data
