// The check of a data set before training: each sample is read, and faults are counted by kind.
#include <lockstep/base/error.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/base/text.h>
#include <lockstep/base/this_host.h>
#include <lockstep/data/check.h>
#include <lockstep/data/files/reports.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/train/evaluation/check_data.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/parts.h>
#include <lockstep/train/resources/run_data.h>
#include <lockstep/train/task.h>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

namespace lockstep::train {
namespace {

constexpr std::size_t kMostProblems = 100;
constexpr std::size_t kMostSizes = 10'000;

void add_problem(CheckedSplit& split, std::string text) {
  ++split.problem_count;
  if (split.problems.size() < kMostProblems) split.problems.push_back(std::move(text));
}

void add_sizes(std::map<std::string, FieldSizes>& fields, const std::string& name, std::string dtype,
               std::vector<std::int64_t> sizes) {
  auto& field = fields[name];
  field.dtype = std::move(dtype);
  ++field.samples;
  if (field.sizes.size() < kMostSizes) field.sizes.insert(std::move(sizes));
}

void add_fields(std::map<std::string, FieldSizes>& fields, const samples::Sample& sample) {
  for (const auto& [name, tensor] : sample.tensors) {
    add_sizes(fields, name, c10::toString(tensor.scalar_type()), tensor.sizes().vec());
  }
  for (const auto& [name, text] : sample.texts) {
    add_sizes(fields, name, "text", {static_cast<std::int64_t>(text.size())});
  }
}

/// The reference for the batches of one rank: its first sample, and the sizes that were tried with it.
struct Reference {
  std::optional<samples::Sample> sample;
  std::set<std::vector<std::vector<std::int64_t>>> tried;
};

class SplitCheck {
 public:
  SplitCheck(const ResolvedRun& config, const samples::Dataset& dataset, samples::Transform transform,
             CheckedSplit& checked)
      : config_(config), dataset_(dataset), transform_(std::move(transform)), checked_(checked) {
    checked_.classes = dataset.classes();
    if (!config.has_own_model && !has_task(config)) {
      classes_ = config.model.num_classes;
    } else if (!checked_.classes.empty()) {
      classes_ = static_cast<std::int64_t>(checked_.classes.size());
    }
  }

  void run() {
    constexpr std::int64_t kTogether = 32;
    constexpr int kMostThreads = 16;
    WorkPool pool(std::min(usable_cpus(), kMostThreads));
    for (std::int64_t first = 0; first < dataset_.size(); first += kTogether) {
      const auto end = std::min(first + kTogether, dataset_.size());
      pool.add([this, first, end] {
        for (auto index = first; index < end; ++index) look_at(index);
      });
    }
    pool.wait();
  }

 private:
  void look_at(std::int64_t index) {
    const auto seed = config_.data.shuffle_seed.value_or(0);
    const samples::Chance chance(static_cast<std::uint64_t>(seed), 0, index);
    const data::BadItemsTaken passed_over;  // where lines are read again, these were named when the data was loaded
    try {
      auto sample = dataset_.get(index, chance);
      const auto wrong = mistake_in(sample);
      {
        const std::lock_guard lock(mutex_);
        ++checked_.samples;
        add_fields(checked_.as_read, sample);
        count_label(sample);
        if (!wrong.empty()) add_problem(checked_, fmt::format("{}: {}", name_of(sample, index), wrong));
      }
      if (transform_) sample = transform_(std::move(sample), chance);
      const std::lock_guard lock(mutex_);
      if (transform_) add_fields(checked_.as_trained, sample);
      try_in_a_batch(std::move(sample), index);
    } catch (const std::exception& error) {
      const auto text = shown_message(error.what());
      const std::lock_guard lock(mutex_);
      add_problem(checked_, fmt::format("sample {}: {}", index, text.substr(0, text.find('\n'))));
    }
  }

  static std::string name_of(const samples::Sample& sample, std::int64_t index) {
    const auto name = sample.texts.find("names");
    return name == sample.texts.end() ? fmt::format("sample {}", index)
                                      : fmt::format("sample {} ({})", index, cut_text(name->second, 200));
  }

  static std::optional<std::int64_t> label_of(const samples::Sample& sample) {
    const auto label = sample.tensors.find(samples::kLabels);
    if (label == sample.tensors.end() || label->second.scalar_type() != at::kLong || label->second.numel() != 1) {
      return std::nullopt;
    }
    return label->second.item<std::int64_t>();
  }

  std::string mistake_in(const samples::Sample& sample) const {
    for (const auto& [name, tensor] : sample.tensors) {
      if (tensor.is_floating_point() && !tensor.isfinite().all().item<bool>()) {
        return fmt::format("the field {} has numbers that are not finite", name);
      }
    }
    const auto label = label_of(sample);
    if (!label || (*label >= 0 && (classes_ == 0 || *label < classes_))) return "";
    return classes_ == 0 ? fmt::format("the label {} is below 0", *label)
                         : fmt::format("the label {} is not one of {} classes, from 0 to {} (model.num_classes)",
                                       *label, classes_, classes_ - 1);
  }

  void count_label(const samples::Sample& sample) {
    if (const auto label = label_of(sample)) ++checked_.labels[*label];
  }

  /// Samples with new sizes must fit into a batch with the first sample.
  void try_in_a_batch(samples::Sample sample, std::int64_t index) {
    std::vector<std::vector<std::int64_t>> sizes;
    for (const auto& [name, tensor] : sample.tensors) sizes.push_back(tensor.sizes().vec());
    if (first_.tried.size() >= kMostSizes || !first_.tried.insert(std::move(sizes)).second) return;
    if (!first_.sample) {
      first_.sample = std::move(sample);
      return;
    }
    try {
      static_cast<void>(dataset_.collate({*first_.sample, std::move(sample)}));
    } catch (const std::exception& error) {
      const auto text = shown_message(error.what());
      add_problem(checked_, fmt::format("sample {}: {}", index, text.substr(0, text.find('\n'))));
    }
  }

  const ResolvedRun& config_;
  const samples::Dataset& dataset_;
  const samples::Transform transform_;
  std::int64_t classes_ = 0;  // 0: not known
  std::mutex mutex_;
  CheckedSplit& checked_;
  Reference first_;
};

/// nullopt: the split does not exist.
std::optional<CheckedSplit> check_split(const ResolvedRun& config, const DataPart& part, data::Split split) {
  CheckedSplit checked{.split = split};
  const data::BadItemsTaken taken;
  const auto add_taken = [&] {
    for (const auto& problem : taken.first()) add_problem(checked, problem);
    checked.problem_count = taken.count();
  };
  try {
    const auto transform = transforms_of(config, split, part.shape).steps;
    const auto dataset = part.load(data_options(config.data, part), split);
    if (!dataset) return std::nullopt;
    add_taken();
    SplitCheck(config, *dataset, transform, checked).run();
    if (checked.samples == 0) add_problem(checked, "no sample can be used");
  } catch (const Error& error) {
    if (checked.problem_count == 0) add_taken();
    add_problem(checked, error.what());
  }
  std::ranges::sort(checked.problems);
  return checked;
}

/// The files of cifar10 and mnist have their own check.
CheckedData check_pictures(const ResolvedRun& config, const std::string& root) {
  CheckedData result{config.data.name, {}};
  const auto report = data::check_dataset(config.data.name, root);
  for (const auto& found : report.splits) {
    CheckedSplit split{.split = found.split, .samples = found.records};
    for (std::size_t label = 0; label < found.class_counts.size(); ++label) {
      split.labels[static_cast<std::int64_t>(label)] = found.class_counts[label];
    }
    result.splits.push_back(std::move(split));
  }
  for (const auto& problem : report.problems) add_problem(result.splits.front(), to_text(problem));
  const auto classes = static_cast<std::int64_t>(report.splits.front().class_counts.size());
  if (!config.has_own_model && config.model.num_classes < classes) {
    add_problem(result.splits.front(), fmt::format("model.num_classes is {}, but {} has {} classes",
                                                   config.model.num_classes, config.data.name, classes));
  }
  return result;
}

std::string sizes_text(const FieldSizes& field) {
  const auto text = [](const std::vector<std::int64_t>& sizes) {
    return sizes.empty() ? std::string("one number") : fmt::format("{}", fmt::join(sizes, "x"));
  };
  const auto& sizes = field.sizes;
  const auto unit = field.dtype == "text" ? " bytes" : "";
  if (sizes.size() == 1) return text(*sizes.begin()) + unit;
  const auto dimensions = sizes.begin()->size();
  const auto count = fmt::format("{}{} sizes", sizes.size() >= kMostSizes ? "more than " : "", sizes.size());
  if (std::ranges::any_of(sizes, [&](const auto& each) { return each.size() != dimensions; })) return count;
  auto least = *sizes.begin(), most = least;
  for (const auto& each : sizes) {
    for (std::size_t i = 0; i < dimensions; ++i) {
      least[i] = std::min(least[i], each[i]);
      most[i] = std::max(most[i], each[i]);
    }
  }
  return fmt::format("{} to {}{} ({})", text(least), text(most), unit, count);
}

void add_fields_text(std::string& text, std::string_view title, const std::map<std::string, FieldSizes>& fields) {
  for (const auto& [name, field] : fields) {
    text += fmt::format("\n  {:<9} {:<12} {:<8} {}", title, cut_text(name), field.dtype, sizes_text(field));
    title = "";
  }
}

void add_classes_text(std::string& text, const CheckedSplit& split) {
  constexpr std::size_t kMostShown = 40;
  if (split.labels.empty()) return;
  std::vector<std::string> shown, empty;
  const auto name_of = [&](std::int64_t label) {
    const bool has_name = label >= 0 && label < std::ssize(split.classes);
    return has_name ? cut_text(split.classes[static_cast<std::size_t>(label)]) : std::to_string(label);
  };
  for (const auto& [label, count] : split.labels) shown.push_back(fmt::format("{} {}", name_of(label), count));
  for (std::int64_t label = 0; label < std::ssize(split.classes); ++label) {
    if (!split.labels.contains(label)) empty.push_back(name_of(label));
  }
  const auto list = [&](const std::vector<std::string>& names) {
    const auto first = std::min(names.size(), kMostShown);
    return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(first), ", "),
                       names.size() > first ? fmt::format(", ... ({} classes)", names.size()) : "");
  };
  text += fmt::format("\n  {:<9} {}", "classes", list(shown));
  if (!empty.empty()) text += fmt::format("\n  {:<9} {}", "no sample", list(empty));
}

}  // namespace

std::int64_t CheckedData::problem_count() const {
  return std::accumulate(splits.begin(), splits.end(), std::int64_t{0},
                         [](std::int64_t sum, const CheckedSplit& split) { return sum + split.problem_count; });
}

CheckedData check_data(const ResolvedRun& config) {
  const auto& part = data_part(config);
  const auto formats = data::dataset_names();
  if (part.shape && std::ranges::find(formats, part.name) != formats.end()) {
    auto options = data_options(config.data, part);
    if (const auto* root = root_of(options)) return check_pictures(config, *root);
  }
  CheckedData result{config.data.name, {}};
  for (const auto split : {data::Split::train, data::Split::test}) {
    if (auto checked = check_split(config, part, split)) result.splits.push_back(std::move(*checked));
  }
  return result;
}

std::string to_text(const CheckedData& checked) {
  std::string text = "data " + checked.name;
  for (const auto& split : checked.splits) {
    text += fmt::format("\n{}: {} samples", name(split.split), split.samples);
    add_fields_text(text, "read as", split.as_read);
    add_fields_text(text, "become", split.as_trained);
    add_classes_text(text, split);
    for (const auto& problem : split.problems) text += "\n  bad:      " + problem;
    const auto more = split.problem_count - std::ssize(split.problems);
    if (more > 0) text += fmt::format("\n  and {} more", more);
  }
  const auto problems = checked.problem_count();
  text += problems == 0 ? "\nok" : fmt::format("\n{} problem{}", problems, problems == 1 ? "" : "s");
  return text;
}

}  // namespace lockstep::train
