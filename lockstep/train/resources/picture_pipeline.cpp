// The conversion of transform lists in YAML to specs of the picture pipeline; evaluation leaves out the random steps.
#include <lockstep/base/config.h>
#include <lockstep/base/error.h>
#include <lockstep/base/parse.h>
#include <lockstep/data/loader.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/resources/picture_pipeline.h>

#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::train {
namespace {

[[noreturn]] void wrong(const ConfigNode& node, std::string_view what, std::string_view rule) {
  throw Error(ErrorKind::config, what, fmt::format("{}, not {}", rule, describe_found(node)), node.position);
}

double number(const ConfigNode& node, std::string_view what) {
  const auto value = node.kind == ConfigNode::Kind::scalar && !node.quoted ? parse_number(node.scalar) : std::nullopt;
  if (!value) wrong(node, what, "a list here holds numbers");
  return *value;
}

data::TransformValue value_of(const ConfigNode& node, std::string_view what) {
  if (node.kind == ConfigNode::Kind::list) {
    std::vector<double> numbers;
    for (const auto& item : node.items) numbers.push_back(number(item, what));
    return numbers;
  }
  if (node.kind != ConfigNode::Kind::scalar) wrong(node, what, "an argument is a number, a list of numbers or text");
  const auto value = node.quoted ? std::nullopt : parse_number(node.scalar);
  if (value) return *value;
  return node.scalar;
}

/// The configuration's transforms as the specs from which data/ builds them. Reads a list such as `[random_crop: {size:
/// 32, padding: 4}, hwc2chw]`. A scalar that is a number becomes one, other scalars are text. Error(config), with the
/// place in the file, for any item that is not a name with arguments of those kinds; names and arguments themselves are
/// checked by data::build_transforms. `what` is the list's key.
std::vector<data::TransformSpec> transform_specs(const ConfigNode& list, std::string_view what) {
  std::vector<data::TransformSpec> specs;
  for (const auto& item : read_named_list(list, what)) {
    data::TransformSpec spec{item.name, {}, item.position};
    const auto path = fmt::format("{}.{}", what, item.name);
    for (const auto& [key, node] : item.arguments.entries) {
      spec.arguments.push_back({key, value_of(node, path), node.position});
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

/// The default steps for evaluation: those of training without the random ones.
std::vector<data::TransformSpec> without_chance(std::vector<data::TransformSpec> specs) {
  std::erase_if(specs, [](const auto& spec) { return spec.name.starts_with("random_"); });
  return specs;
}

std::vector<data::TransformSpec> specs_of(const DataConfig& config, data::Split split) {
  const auto train = [&] { return transform_specs(config.train_transforms, "data.train_transforms"); };
  if (split == data::Split::train) return train();
  if (config.eval_transforms.kind == ConfigNode::Kind::null) return without_chance(train());
  return transform_specs(config.eval_transforms, "data.eval_transforms");
}

}  // namespace

data::Pipeline make_pipeline(const DataConfig& config, data::Split split) {
  const auto& part = part_named(parts_or_shipped(config.parts).data, config.name, "data.name");
  return {specs_of(config, split), part.shape};
}

}  // namespace lockstep::train
