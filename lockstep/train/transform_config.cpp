#include <lockstep/base/parse.h>
#include <lockstep/train/transform_config.h>

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

}  // namespace

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

}  // namespace lockstep::train
