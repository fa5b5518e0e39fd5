// Lists of transforms in a configuration: their steps, and the compiled form of those for pictures in memory.
#include <lockstep/base/config.h>
#include <lockstep/base/config_reader.h>
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/text.h>
#include <lockstep/base/yaml_text.h>
#include <lockstep/data/files/items.h>
#include <lockstep/samples/picture_parts.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/samples/stored_pictures.h>
#include <lockstep/samples/transforms.h>

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <ranges>
#include <utility>

namespace lockstep::samples {
namespace {

std::string without_case(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c != '_') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return plain;
}

/// The last part of that name, because users' parts are after ours and take precedence.
const TransformPart& find_transform(const NamedArguments& item, std::string_view what,
                                    const std::vector<TransformPart>& parts) {
  std::vector<std::string> names;
  for (const auto& part : parts | std::views::reverse) {
    if (without_case(part.name) == without_case(item.name)) return part;
    names.push_back(part.name);
  }
  std::ranges::sort(names);
  throw Error(ErrorKind::config, what,
              fmt::format("there is no transform '{}'{}", cut_text(item.name),
                          did_you_mean(item.name, names, fmt::format("known are {}", fmt::join(names, ", ")))),
              item.position);
}

/// Whole numbers may be written as 32.0.
void make_whole(ConfigNode& item) {
  const auto number = item.kind == ConfigNode::Kind::scalar && !item.quoted ? parse_number(item.scalar) : std::nullopt;
  if (number && std::abs(*number) < 1e9 && *number == std::floor(*number)) item.scalar = fmt::format("{:.0f}", *number);
}

/// `size: 32` for `size: [32]`.
ConfigNode with_lists(ConfigNode arguments, PartOptions& options) {
  for (const auto& key : list_fields([&](ConfigFields& fields) { options.visit(fields); })) {
    if (!key.type.starts_with("list of")) continue;
    for (auto& entry : arguments.entries) {
      if (entry.key != key.path) continue;
      if (entry.value.kind == ConfigNode::Kind::scalar) {
        ConfigNode item = entry.value;
        entry.value = {.kind = ConfigNode::Kind::list,
                       .items = {std::move(item)},
                       .entries = {},
                       .position = entry.value.position};
      }
      if (key.type == "list of integers") std::ranges::for_each(entry.value.items, make_whole);
    }
  }
  return arguments;
}

void require_order(const TransformPart& part, bool channels_first, std::string_view what,
                   const FilePosition& position) {
  if (part.order == PictureOrder::any || !channels_first) return;
  throw Error(ErrorKind::config, what,
              fmt::format("{} works on HWC pictures, but a step before it (hwc2chw, to_tensor) makes them CHW; move "
                          "{} in front of it",
                          part.name, part.name),
              position);
}

/// The error of a transform, as one of its place in the file.
[[noreturn]] void rethrow_at(const Error& error, const TransformPart& part, std::string_view what,
                             const FilePosition& position) {
  // For a plugin's part, the place of the error names the plugin and the part (train/plugins/error_origin.h).
  const auto from = error.where().find(part.name) == std::string::npos ? "" : error.where() + ": ";
  throw Error(ErrorKind::config, what, from + error.message(), position);
}

/// For errors of steps, whose `where` is not their list's key.
std::string place_of(const Error& error, std::string_view what) {
  return error.where() == "transforms" ? std::string(what) : error.where();
}

Transform one_after_the_other(std::vector<Transform> steps, std::string_view what) {
  if (steps.empty()) return {};
  return [steps = std::move(steps), what = std::string(what)](Sample sample, const Chance& chance) {
    const auto name = sample.texts.find(kNames);
    const auto said = name == sample.texts.end() ? fmt::format("sample {}", chance.index()) : name->second;
    try {
      for (const auto& step : steps) sample = step(std::move(sample), chance);
    } catch (const Error& error) {
      throw Error(error.kind(), place_of(error, what), fmt::format("{}: {}", said, error.message()), error.position());
    }
    return sample;
  };
}

/// The maker of a transform of batches, with errors of its place in the file.
std::function<BatchTransform(const Dataset&)> for_batches(const TransformPart& part, const PartOptions& options,
                                                          const TransformStep& step, std::string_view what,
                                                          const FilePosition& position) {
  const auto naming_place = [what = std::string(what), position](const auto& call) {
    try {
      return call();
    } catch (const Error& error) {
      throw Error(error.kind(), place_of(error, what), error.message(), position);
    }
  };
  return [make = part.make_for_batches, options, step, naming_place](const Dataset& dataset) -> BatchTransform {
    auto made = naming_place([&] { return make(options, step, dataset); });
    return [made = std::move(made), naming_place](Batch batch, const Chance& chance) {
      return naming_place([&] { return made(std::move(batch), chance); });
    };
  };
}

bool is_above_shares(const Dataset& dataset, const Transform& steps) {
  try {
    const Chance chance(0, 0, 0);
    auto sample = dataset.get(0, chance);
    if (steps) sample = steps(std::move(sample), chance);
    const auto found = sample.tensors.find(kPictures);
    return found != sample.tensors.end() && found->second.numel() > 0 && found->second.max().item<double>() > 2;
  } catch (const Error&) {
    return false;  // the run will find it
  }
}

std::string text_of(const data::PictureShape& shape) {
  return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

/// What a list for pictures in memory makes of them, found with a black picture; and the list's compiled form.
class Trial {
 public:
  explicit Trial(const data::PictureShape& shape) : plan_(shape), text_(text_of(shape)) {
    picture_.tensors.emplace(kPictures, at::zeros({shape.height, shape.width, shape.channels}, at::kByte));
    picture_.tensors.emplace(kLabels, at::zeros({}, at::kLong));
  }

  void pass(const TransformPart& part, const PartOptions& options, const TransformStep& step, const Transform& made) {
    picture_ = made(std::move(picture_), Chance(0, 0, 0));
    if (plan_ && !(part.compile && part.compile(options, step, *plan_))) plan_.reset();
  }

  void add_text(const NamedArguments& item, const TransformPart& part) {
    text_ += " -> " + part.name;
    if (!item.arguments.entries.empty()) text_ += " " + print_yaml_flow(item.arguments);
  }

  /// Error(config) unless the list ends with CHW float32.
  void finish(TransformList& list, bool channels_first, std::string_view what, const FilePosition& position) {
    const auto picture = picture_.tensors[kPictures];
    std::string missing;
    if (!picture.defined()) fail(ErrorKind::config, what, "leaves samples without the field `pictures`");
    if (picture.scalar_type() != at::kFloat) missing = "rescale, normalize or type_cast {type: float32}";
    if (!channels_first) missing += missing.empty() ? "hwc2chw" : ", and hwc2chw";
    if (!missing.empty() || picture.dim() != 3) {
      throw Error(ErrorKind::config, what,
                  fmt::format("the transforms give pictures as {} {} [{}], but a model needs CHW float32{}",
                              channels_first ? "CHW" : "HWC", c10::toString(picture.scalar_type()),
                              fmt::join(picture.sizes(), ", "), missing.empty() ? "" : "; add " + missing),
                  position);
    }
    list.output = {static_cast<int>(picture.size(0)), static_cast<int>(picture.size(1)),
                   static_cast<int>(picture.size(2))};
    list.text = fmt::format("{} -> {} ({})", text_, text_of(list.output), plan_ ? "compiled" : "step by step");
    list.plan = std::move(plan_);
  }

 private:
  Sample picture_;
  std::optional<data::PicturePlan> plan_;
  std::string text_;
};

}  // namespace

TransformList read_transforms(const ConfigNode& list, std::string_view what, const ForeignWords& words,
                              const std::vector<TransformPart>& parts, bool with_random,
                              const std::optional<data::PictureShape>& stored) {
  std::vector<Transform> steps;
  TransformList made;
  bool is_scaled = !with_random;  // the list of training has the warning
  std::map<std::string, int> seen;
  std::int64_t random_steps = 0;
  auto trial = stored ? std::optional<Trial>(*stored) : std::nullopt;
  TransformStep step;
  FilePosition position = list.position;
  for (const auto& item : read_named_list(list, what)) {
    const auto& part = find_transform(item, what, parts);
    PartOptions options = part.options;
    auto arguments = with_lists(item.arguments, options);
    if (arguments.kind == ConfigNode::Kind::null) arguments.position = item.position;
    read_options(arguments, fmt::format("{}.{}", what, part.name), options, words);
    require_order(part, step.channels_first, what, item.position);
    const int number = ++seen[part.name];
    if (part.random && !with_random) continue;
    step.name = number == 1 ? part.name : fmt::format("{}.{}", part.name, number);
    if (part.make_for_batches) {
      made.of_batches.push_back(for_batches(part, options, step, what, item.position));
      if (trial) trial->add_text(item, part);
      continue;
    }
    if (!made.of_batches.empty()) {
      throw Error(ErrorKind::config, what,
                  fmt::format("{} changes one sample, and a step before it changes whole batches; move it in front of "
                              "that one",
                              part.name),
                  item.position);
    }
    if (part.name == "normalize" && part.compile && !is_scaled && normalizes_shares(options)) {
      made.warning = fmt::format(
          "{}: normalize gets values up to 255, and its mean and std are for values from 0 to 1; put to_tensor, or "
          "rescale: {{scale: 0.00392156862745098}}, in front of it",
          what);
      made.steps_before_warning = one_after_the_other(steps, what);
    }
    is_scaled |= part.name == "normalize" || part.name == "rescale" || part.name == "to_tensor";
    if (stored) step.position = random_steps;
    try {
      steps.push_back(part.make(options, step));
      if (trial) trial->pass(part, options, step, steps.back());
    } catch (const Error& error) {
      rethrow_at(error, part, what, item.position);
    }
    if (trial) trial->add_text(item, part);
    if (part.random) ++random_steps;
    if (part.order == PictureOrder::makes_channels_first) step.channels_first = true;
    position = item.position;
  }
  made.steps = one_after_the_other(std::move(steps), what);
  if (trial) trial->finish(made, step.channels_first, what, position);
  return made;
}

std::shared_ptr<const Dataset> transformed(std::shared_ptr<const Dataset> dataset, const TransformList& list) {
  if (!list.warning.empty() && dataset->size() > 0 && is_above_shares(*dataset, list.steps_before_warning)) {
    data::report_line(LogLevel::warning, list.warning);
  }
  std::vector<BatchTransform> of_batches;
  for (const auto& make : list.of_batches) of_batches.push_back(make(*dataset));
  if (list.plan && dataset->stored()) {
    dataset = planned_pictures(std::move(dataset), *list.plan);
  } else if (list.steps) {
    dataset = mapped(std::move(dataset), list.steps);
  }
  if (of_batches.empty()) return dataset;
  return mapped_batches(std::move(dataset), [steps = std::move(of_batches)](Batch batch, const Chance& chance) {
    for (const auto& step : steps) batch = step(std::move(batch), chance);
    return batch;
  });
}

std::shared_ptr<const Dataset> transformed(std::shared_ptr<const Dataset> dataset, const ConfigNode& list,
                                           std::string_view what, const std::vector<TransformPart>& parts,
                                           bool with_random) {
  const auto pictures = dataset->stored();
  const auto shape = pictures ? std::optional(pictures->shape()) : std::nullopt;
  return transformed(std::move(dataset), read_transforms(list, what, {}, parts, with_random, shape));
}

std::shared_ptr<const Dataset> transformed(std::shared_ptr<const Dataset> dataset, std::string_view list) {
  return transformed(std::move(dataset), parse_yaml(list, "the program"), "transforms", shipped_transforms());
}

Transform transforms_of(const ConfigNode& list, std::string_view what, const std::vector<TransformPart>& parts,
                        bool with_random) {
  return read_transforms(list, what, {}, parts, with_random, std::nullopt).steps;
}

}  // namespace lockstep::samples
