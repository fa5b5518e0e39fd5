// The plain values of a configuration: nodes of a tree of names, lists and arguments, rules of fields (ranges, choices,
// lists and other conditions), and the error of options of another type.
#include <lockstep/base/config.h>
#include <lockstep/base/text.h>

#include <cxxabi.h>

#include <cstdlib>
#include <utility>

namespace lockstep {
namespace {

[[noreturn]] void fail_in_list(std::string_view what, std::size_t index, const ConfigNode& item) {
  throw Error(
      ErrorKind::config, "config",
      fmt::format("{}[{}]: expected a name or 'name: {{arguments}}', found {}", what, index,
                  item.kind == ConfigNode::Kind::map ? fmt::format("a section with {} keys", item.entries.size())
                                                     : describe_found(item)),
      item.position);
}

}  // namespace

const ConfigNode* ConfigNode::find(std::string_view key) const {
  if (looked_at) *looked_at = true;
  for (const Entry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

ConfigNode make_null(FilePosition position) {
  ConfigNode node;
  node.position = std::move(position);
  return node;
}

ConfigNode make_scalar(std::string text, bool quoted) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::scalar;
  node.scalar = std::move(text);
  node.quoted = quoted;
  return node;
}

ConfigNode make_section(FilePosition position) {
  ConfigNode node = make_null(std::move(position));
  node.kind = ConfigNode::Kind::map;
  return node;
}

std::string describe_found(const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::null: return "nothing";
    case ConfigNode::Kind::scalar:
      return node.quoted ? fmt::format("the text \"{}\"", cut_text(node.scalar))
                         : fmt::format("'{}'", cut_text(node.scalar));
    case ConfigNode::Kind::list: return "a list";
    case ConfigNode::Kind::map: return "a section";
  }
  return "nothing";
}

std::vector<NamedArguments> read_named_list(const ConfigNode& node, std::string_view what) {
  if (node.kind == ConfigNode::Kind::null) return {};
  if (node.kind != ConfigNode::Kind::list) {
    throw Error(
        ErrorKind::config, "config",
        fmt::format("{}: expected a list of names or 'name: {{arguments}}', found {}", what, describe_found(node)),
        node.position);
  }
  std::vector<NamedArguments> result;
  for (const ConfigNode& item : node.items) {
    if (item.kind == ConfigNode::Kind::scalar) {
      result.push_back({item.scalar, make_null(item.position), item.position});
    } else if (item.kind == ConfigNode::Kind::map && item.entries.size() == 1) {
      const auto& [name, arguments] = item.entries.front();
      if (arguments.kind != ConfigNode::Kind::map && arguments.kind != ConfigNode::Kind::null) {
        throw Error(ErrorKind::config, "config",
                    fmt::format("{}[{}]: expected the arguments of {} as 'key: value' pairs, found {}", what,
                                result.size(), name, describe_found(arguments)),
                    arguments.position);
      }
      result.push_back({name, arguments, arguments.position});
    } else {
      fail_in_list(what, result.size(), item);
    }
  }
  return result;
}

ConfigRule anything() { return {}; }

ConfigRule at_least(double low) { return {.low = low}; }

ConfigRule above(double low) { return {.low = low, .low_excluded = true}; }

ConfigRule between(double low, double high) { return {.low = low, .high = high}; }

ConfigRule from_to_below(double low, double high) { return {.low = low, .high = high, .high_excluded = true}; }

ConfigRule one_of(std::vector<std::string> choices) { return {.choices = std::move(choices)}; }

ConfigRule hidden() { return {.hidden = true}; }

ConfigRule items(std::size_t count, ConfigRule rule) {
  rule.count = count;
  return rule;
}

ConfigRule ascending(ConfigRule rule) {
  rule.ascending = true;
  return rule;
}

ConfigRule or_default(ConfigRule rule) {
  rule.null_is_default = true;
  return rule;
}

ConfigRule a_path(ConfigRule rule) {
  rule.path = true;
  return rule;
}

ConfigRule required(ConfigRule rule) {
  rule.required = true;
  return rule;
}

void detail::fail_wrong_options(const std::string& part, const std::type_info& given, const std::type_info& read) {
  const auto name_of = [](const std::type_info& type) {
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                           &std::free);
    return std::string(name ? name.get() : type.name());
  };
  const auto owner = part.empty() ? std::string("a part") : fmt::format("the part '{}'", part);
  if (given == typeid(void)) {
    fail(ErrorKind::invalid_argument, "options",
         "{} has no options, and its functions read a {}; give it PartOptions::of()", owner, name_of(read));
  }
  fail(ErrorKind::invalid_argument, "options",
       "those of {} are a {}, and its functions read a {}; give it a value of that type", owner, name_of(given),
       name_of(read));
}

}  // namespace lockstep
