// Lists of transforms in a configuration.
#include <lockstep/base/config.h>
#include <lockstep/base/error.h>
#include <lockstep/base/home_paths.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/samples/picture_sample.h>
#include <lockstep/samples/transforms.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
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
              fmt::format("there is no transform '{}'{}; known are {}", cut_text(item.name),
                          did_you_mean(item.name, names), fmt::join(names, ", ")),
              item.position);
}

/// `size: 32` for `size: [32]`.
ConfigNode with_lists(ConfigNode arguments, PartOptions& options) {
  for (const auto& key : list_fields([&](ConfigFields& fields) { options.visit(fields); })) {
    if (!key.type.starts_with("list of")) continue;
    for (auto& entry : arguments.entries) {
      if (entry.key != key.path || entry.value.kind != ConfigNode::Kind::scalar) continue;
      ConfigNode item = entry.value;
      entry.value = {
          .kind = ConfigNode::Kind::list, .items = {std::move(item)}, .entries = {}, .position = entry.value.position};
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

}  // namespace

Transform transforms_of(const ConfigNode& list, std::string_view what, const std::vector<TransformPart>& parts,
                        bool with_random) {
  return transforms_of(list, what, ForeignWords{}, parts, with_random);
}

Transform transforms_of(const ConfigNode& list, std::string_view what, const ForeignWords& words,
                        const std::vector<TransformPart>& parts, bool with_random) {
  std::vector<Transform> steps;
  std::map<std::string, int> seen;
  bool channels_first = false;
  for (const auto& item : read_named_list(list, what)) {
    const auto& part = find_transform(item, what, parts);
    PartOptions options = part.options;
    auto arguments = with_lists(item.arguments, options);
    if (arguments.kind == ConfigNode::Kind::null) arguments.position = item.position;
    read_options(arguments, fmt::format("{}.{}", what, part.name), options, words);
    require_order(part, channels_first, what, item.position);
    const int number = ++seen[part.name];
    if (part.random && !with_random) continue;
    const auto name = number == 1 ? part.name : fmt::format("{}.{}", part.name, number);
    try {
      steps.push_back(part.make(options, {name, channels_first}));
    } catch (const Error& error) {
      // For a plugin's part, the place of the error names the plugin and the part (train/plugins/error_origin.h).
      const auto from = error.where().find(part.name) == std::string::npos ? "" : error.where() + ": ";
      throw Error(ErrorKind::config, what, from + error.message(), item.position);
    }
    if (part.order == PictureOrder::makes_channels_first) channels_first = true;
  }
  if (steps.empty()) return {};
  return [steps = std::move(steps)](Sample sample, const Chance& chance) {
    const auto name = sample.texts.find(kNames);
    const auto said = name == sample.texts.end() ? fmt::format("sample {}", chance.index()) : name->second;
    try {
      for (const auto& step : steps) sample = step(std::move(sample), chance);
    } catch (const Error& error) {
      throw Error(error.kind(), error.where(), fmt::format("{}: {}", said, error.message()), error.position());
    }
    return sample;
  };
}

}  // namespace lockstep::samples
