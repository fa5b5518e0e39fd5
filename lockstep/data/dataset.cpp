#include <fmt/ranges.h>
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/data/cifar10.h>
#include <lockstep/data/dataset.h>
#include <lockstep/data/format.h>
#include <lockstep/data/mnist.h>

#include <algorithm>
#include <array>

namespace lockstep::data {
namespace {

constexpr std::array kFormats{kCifar10, kMnist};

}  // namespace

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
  fail(ErrorKind::invalid_argument, "data", "there is no data set '{}'; known are {}{}", name, fmt::join(names, ", "),
       did_you_mean(name, names));
}

bool holds_files_of(const DatasetFormat& format, const std::filesystem::path& folder) {
  std::error_code code;
  for (std::filesystem::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code)) {
    if (format.is_file_name(entry->path().filename().string())) return true;
  }
  return false;
}

void require_folder(const std::filesystem::path& root, const DatasetFormat& format) {
  std::error_code code;
  if (std::filesystem::is_directory(root, code)) return;
  fail(ErrorKind::io, format.name,
       "{} is not a folder; give one that holds {}, or make one with `lockstep data synthesize {}`", root.string(),
       format.folder_holds, format.name);
}

Problem missing_file(const DatasetFormat& format, const std::filesystem::path& file) {
  const std::filesystem::path root = file.parent_path();
  const std::filesystem::path inner = root / format.usual_folder;
  std::string rule = fmt::format("is missing; a right folder holds {}", format.folder_holds);
  if (holds_files_of(format, inner)) rule += fmt::format("; did you mean {}?", inner.string());
  return {file, -1, std::move(rule), ErrorKind::io};
}

std::shared_ptr<const Dataset> load_dataset(std::string_view name, const std::filesystem::path& root, Split split) {
  const DatasetFormat& format = find_format(name);
  require_folder(root, format);
  Problems problems;
  SplitContents contents = format.read(root, split, problems);
  if (problems.size() == 1) throw Error(problems[0].kind, format.name, to_text(problems[0]));
  if (!problems.empty()) {
    fail(problems[0].kind, format.name, "{} (and {} more; `lockstep data check {}` lists them all)",
         to_text(problems[0]), problems.size() - 1, root.string());
  }
  return make_memory_dataset(format.shape, format.num_classes, std::move(contents));
}

}  // namespace lockstep::data
