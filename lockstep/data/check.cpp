// The check and the detection of a data set's format, over the same readers as loading; the report as text.
#include <fmt/ranges.h>
#include <lockstep/base/error.h>
#include <lockstep/data/check.h>
#include <lockstep/data/format.h>

namespace lockstep::data {
namespace {

const DatasetFormat& detect_format(const std::filesystem::path& root) {
  std::error_code code;
  if (!std::filesystem::is_directory(root, code)) {
    fail(ErrorKind::invalid_argument, "data", "{} is not a folder; give the one that holds the data set's files",
         root.string());
  }
  const DatasetFormat* found = nullptr;
  std::string known;
  for (const DatasetFormat& format : dataset_formats()) {
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", or ", format.folder_holds, format.name);
    if (!holds_files_of(format, root)) continue;
    if (found != nullptr) {
      fail(ErrorKind::data, "data", "{} holds files of both {} and {}; choose one of them with --name", root.string(),
           found->name, format.name);
    }
    found = &format;
  }
  if (found != nullptr) return *found;
  int folders = 0;
  std::string hint;
  for (const DatasetFormat& format : dataset_formats()) {
    for (const auto& folder : folders_below(format, root)) {
      hint += fmt::format("{}{} ({})", folders++ == 0 ? "; did you mean " : " or ", folder.string(), format.name);
      found = &format;
    }
    if (const auto other = format.other_form != nullptr ? format.other_form(root) : "";
        hint.empty() && !other.empty()) {
      hint = "; " + other;
    }
  }
  if (folders == 1) return *found;
  fail(ErrorKind::invalid_argument, "data", "{} holds no data set's files: neither {}{}", root.string(), known, hint);
}

SplitSummary summarize(Split split, const SplitContents& contents, int num_classes) {
  SplitSummary summary{split, static_cast<std::int64_t>(contents.labels.size()),
                       std::vector<std::int64_t>(static_cast<std::size_t>(num_classes))};
  for (const std::uint8_t label : contents.labels) {
    if (label < num_classes) ++summary.class_counts[label];
  }
  return summary;
}

}  // namespace

CheckReport check_dataset(std::string_view name, const std::filesystem::path& root) {
  const DatasetFormat& format = name == "auto" ? detect_format(root) : find_format(name);
  CheckReport report{
      .dataset = std::string(format.name), .root = find_root(format, root), .splits = {}, .problems = {}};
  for (const Split split : {Split::train, Split::test}) {
    const SplitContents contents = format.read(report.root, split, report.problems);
    report.splits.push_back(summarize(split, contents, format.num_classes));
  }
  return report;
}

std::string to_text(const CheckReport& report) {
  std::string text = fmt::format("{} in {}", report.dataset, report.root.string());
  for (const SplitSummary& split : report.splits) {
    text += fmt::format("\n  {:<5} {:>6} records; per class: {}", name(split.split), split.records,
                        fmt::join(split.class_counts, " "));
  }
  for (const Problem& problem : report.problems) text += "\n  bad: " + to_text(problem);
  text += report.ok() ? "\n  ok"
                      : fmt::format("\n  {} problem{}", report.problems.size(), report.problems.size() == 1 ? "" : "s");
  return text;
}

}  // namespace lockstep::data
