// Values of a configuration, read strictly from their texts.
#include <lockstep/base/config_values.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/text.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <system_error>
#include <type_traits>
#include <utility>

namespace lockstep::detail {
namespace {

template <typename T>
constexpr std::string_view kSingular{};
template <>
constexpr std::string_view kSingular<bool> = "true or false";
template <>
constexpr std::string_view kSingular<std::int64_t> = "an integer";
template <>
constexpr std::string_view kSingular<double> = "a number";
template <>
constexpr std::string_view kSingular<std::string> = "text";

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <typename T>
struct IsList : std::false_type {};
template <typename T>
struct IsList<std::vector<T>> : std::true_type {};

std::optional<bool> parse_scalar(const std::string& text, bool /*type*/) { return parse_bool(text); }
/// 010 is 8 for readers of YAML 1.1, and 10 for others.
bool has_leading_zero(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return text.size() > 1 && text.front() == '0' && std::ranges::all_of(text, is_digit);
}

std::optional<std::int64_t> parse_scalar(const std::string& text, std::int64_t /*type*/) {
  return has_leading_zero(text) ? std::nullopt : parse_integer(text);
}
std::optional<double> parse_scalar(const std::string& text, double /*type*/) {
  return has_leading_zero(text) ? std::nullopt : parse_number(text);
}
std::optional<std::string> parse_scalar(const std::string& text, const std::string& /*type*/) { return text; }

bool is_null_word(const ConfigNode& node) {
  const auto& text = node.scalar;
  return !node.quoted && (text == "~" || text == "null" || text == "Null" || text == "NULL" || text.empty());
}

bool is_null(const ConfigNode& node) {
  return node.kind == ConfigNode::Kind::null || (node.kind == ConfigNode::Kind::scalar && is_null_word(node));
}

std::optional<std::int64_t> digits_of_base(std::string_view text, int base) {
  std::int64_t value = 0;
  const auto* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value, base);
  return error == std::errc{} && stopped == end ? std::optional(value) : std::nullopt;
}

/// The number that other YAML readers, or users, may mean with a different notation; empty: no ambiguity.
std::string other_number(std::string text) {
  const bool negative = text.starts_with('-');
  const std::string sign = negative ? "-" : "";
  if (negative || text.starts_with('+')) text.erase(0, 1);
  if (text.size() < 2 || text.front() < '0' || text.front() > '9') return "";
  if (has_leading_zero(text)) {
    const auto decimal = parse_integer(text);
    const auto octal = digits_of_base(text, 8);
    if (!decimal) return "";
    return octal && *octal != *decimal
               ? fmt::format("{0}{1} or {0}{2}, as a number that begins with 0 is octal for some readers of YAML", sign,
                             *decimal, *octal)
               : fmt::format("{}{}", sign, *decimal);
  }
  for (const auto& [prefix, base] : {std::pair{"0x", 16}, {"0o", 8}, {"0b", 2}}) {
    if (!text.starts_with(prefix)) continue;
    const auto value = digits_of_base(std::string_view(text).substr(2), base);
    return value ? fmt::format("{}{}", sign, *value) : "";
  }
  return std::erase(text, '_') > 0 && parse_number(text) ? sign + text : "";
}

// A suggestion for the correct value, when it is obvious.
template <typename T>
std::string hint(const ConfigNode& node) {
  if (is_null(node)) return "; give a value or leave the key out";
  if (node.kind != ConfigNode::Kind::scalar) return "";
  if (node.quoted && parse_scalar(node.scalar, T{})) return "; remove the quotes";
  if constexpr (std::is_same_v<T, std::int64_t> || std::is_same_v<T, double>) {
    if (const auto other = other_number(node.scalar); !other.empty()) return "; write " + other;
  }
  if constexpr (std::is_same_v<T, std::int64_t>) {
    constexpr double kExactInDouble = 9007199254740992.0;
    const auto number = parse_number(node.scalar);
    if (number && std::trunc(*number) == *number && std::abs(*number) <= kExactInDouble) {
      return fmt::format("; write {}", static_cast<std::int64_t>(*number));
    }
  }
  return "";
}

// The empty text would not be visible.
std::string shown_choices(const std::vector<std::string>& choices, std::string_view between) {
  std::string shown;
  for (const auto& choice : choices) {
    if (&choice != &choices.front()) shown += between;
    shown += choice.empty() ? "''" : choice;
  }
  return shown;
}

std::string allowed_items(const ConfigRule& rule) {
  if (!rule.choices.empty()) return shown_choices(rule.choices, " | ");
  const std::string low = rule.low ? fmt::format("{} {}", rule.low_excluded ? "above" : "at least", *rule.low) : "";
  const std::string high = rule.high ? fmt::format("{} {}", rule.high_excluded ? "below" : "at most", *rule.high) : "";
  if (rule.low && rule.high && !rule.low_excluded && !rule.high_excluded) {
    return fmt::format("from {} to {}", *rule.low, *rule.high);
  }
  return low.empty() || high.empty() ? low + high : low + " and " + high;
}

std::string broken_rule(double value, const ConfigRule& rule, const ForeignWords& /*words*/) {
  const bool too_low = rule.low && (rule.low_excluded ? !(value > *rule.low) : !(value >= *rule.low));
  const bool too_high = rule.high && (rule.high_excluded ? !(value < *rule.high) : !(value <= *rule.high));
  if (!too_low && !too_high) return "";
  return fmt::format("{} is out of range; it must be {}", value, allowed_items(rule));
}
std::string broken_rule(std::int64_t value, const ConfigRule& rule, const ForeignWords& words) {
  return broken_rule(static_cast<double>(value), rule, words).empty()
             ? ""
             : fmt::format("{} is out of range; it must be {}", value, allowed_items(rule));
}
std::string broken_rule(bool /*value*/, const ConfigRule& /*rule*/, const ForeignWords& /*words*/) { return ""; }
bool is_choice(std::string_view value, std::string_view choice) {
  constexpr std::string_view kNumber = ":N";
  if (!choice.ends_with(kNumber)) return value == choice;
  const auto before = choice.substr(0, choice.size() - 1);
  const auto number = value.starts_with(before) ? parse_integer(value.substr(before.size())) : std::nullopt;
  return number && *number >= 0;
}

std::string broken_rule(const std::string& value, const ConfigRule& rule, const ForeignWords& words) {
  const auto is_meant = [&](const std::string& choice) { return is_choice(value, choice); };
  if (rule.choices.empty() || std::ranges::any_of(rule.choices, is_meant)) return "";
  auto meant = value_here(value, rule.choices, words);
  if (meant.empty()) meant = did_you_mean(value, rule.choices);
  return fmt::format("'{}' is not one of {}{}", cut_text(value), shown_choices(rule.choices, ", "), meant);
}

// Texts about a list as a whole.
template <typename T>
std::string broken_list_rule(const std::vector<T>& values, const ConfigRule& rule) {
  if (rule.count && values.size() != *rule.count) {
    return fmt::format("must hold {} {}, it holds {}", *rule.count,
                       std::is_same_v<T, std::string> ? "texts" : "numbers", values.size());
  }
  if constexpr (!std::is_same_v<T, std::string>) {
    if (rule.ascending && std::ranges::adjacent_find(values, std::greater_equal<>()) != values.end()) {
      return fmt::format("must ascend, they are [{}]", fmt::join(values, ", "));
    }
  }
  return "";
}

class ValueReader {
 public:
  ValueReader(const ConfigRule& rule, const ForeignWords& words, std::vector<ConfigMistake>& mistakes)
      : rule_(rule), words_(words), mistakes_(mistakes) {}

  template <typename T>
  void read(const ConfigNode& node, const std::string& path, T& value) {
    if constexpr (std::is_same_v<T, ConfigNode>) {
      value = node;
    } else if constexpr (IsOptional<T>::value) {
      read_optional(node, path, value);
    } else if constexpr (IsList<T>::value) {
      read_list(node, path, value);
    } else if (std::is_same_v<T, std::string> && node.kind == ConfigNode::Kind::null && node.position.line == 0) {
      ConfigNode empty = node;  // a shell removes the quotes of data.eval=''
      empty.kind = ConfigNode::Kind::scalar;
      empty.quoted = true;
      read(empty, path, value);
    } else {
      if (auto read = read_scalar<T>(node, path)) value = std::move(*read);
    }
  }

 private:
  template <typename T>
  void read_optional(const ConfigNode& node, const std::string& path, std::optional<T>& value) {
    if (is_null(node)) {
      value.reset();
    } else if (auto read = read_scalar<T>(node, path)) {
      value = std::move(*read);
    }
  }

  template <typename T>
  void read_list(const ConfigNode& node, const std::string& path, std::vector<T>& value) {
    if (node.kind != ConfigNode::Kind::list) {
      const std::string how =
          node.kind == ConfigNode::Kind::scalar ? fmt::format("; write [{}]", cut_text(node.scalar)) : "";
      add(node, fmt::format("{}: expected a list, found {}{}", path, describe_found(node), how));
      return;
    }
    const std::size_t before = mistakes_.size();
    std::vector<T> result;
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      if (auto item = read_scalar<T>(node.items[i], fmt::format("{}[{}]", path, i))) result.push_back(std::move(*item));
    }
    if (mistakes_.size() != before) return;
    if (const auto broken = broken_list_rule(result, rule_); !broken.empty()) {
      add(node, fmt::format("{} {}", path, broken));
      return;
    }
    value = std::move(result);
  }

  template <typename T>
  std::optional<T> read_scalar(const ConfigNode& node, const std::string& path) {
    std::optional<T> value;
    const bool may_be_quoted = std::is_same_v<T, std::string>;
    if (node.kind == ConfigNode::Kind::scalar && !is_null(node) && (may_be_quoted || !node.quoted)) {
      value = parse_scalar(node.scalar, T{});
    }
    if (!value) {
      add(node, fmt::format("{}: expected {}, found {}{}", path, kSingular<T>, describe_found(node), hint<T>(node)));
      return std::nullopt;
    }
    if (const std::string broken = broken_rule(*value, rule_, words_); !broken.empty()) {
      add(node, fmt::format("{}: {}", path, broken));
      return std::nullopt;
    }
    return value;
  }

  void add(const ConfigNode& node, std::string text) { mistakes_.push_back({node.position, std::move(text)}); }

  const ConfigRule& rule_;
  const ForeignWords& words_;
  std::vector<ConfigMistake>& mistakes_;
};

// Whether other YAML readers would parse the unquoted text as another type.
bool needs_quotes(const std::string& text) {
  return is_null_word(make_scalar(text)) || parse_bool(text) || parse_number(text);
}

ConfigNode node_of(bool value) { return make_scalar(value ? "true" : "false"); }
ConfigNode node_of(std::int64_t value) { return make_scalar(std::to_string(value)); }
ConfigNode node_of(double value) { return make_scalar(fmt::format("{}", value)); }
ConfigNode node_of(const std::string& value) { return make_scalar(value, needs_quotes(value)); }
ConfigNode node_of(const ConfigNode& value) { return value; }

template <typename T>
ConfigNode node_of(const std::optional<T>& value) {
  return value ? node_of(*value) : ConfigNode{};
}

template <typename T>
ConfigNode node_of(const std::vector<T>& value) {
  ConfigNode list;
  list.kind = ConfigNode::Kind::list;
  for (const auto& item : value) list.items.push_back(node_of(item));
  return list;
}

std::string name_of(const bool& /*type*/) { return "true/false"; }
std::string name_of(const std::int64_t& /*type*/) { return "integer"; }
std::string name_of(const double& /*type*/) { return "number"; }
std::string name_of(const std::string& /*type*/) { return "text"; }
std::string name_of(const ConfigNode& /*type*/) { return "any YAML"; }

template <typename T>
std::string name_of(const std::optional<T>& /*type*/) {
  return name_of(T{}) + ", may be null";
}

template <typename T>
std::string name_of(const std::vector<T>& /*type*/) {
  return std::is_same_v<T, std::string> ? "list of texts" : "list of " + name_of(T{}) + "s";
}

}  // namespace

void read_value(const ConfigNode& node, const std::string& path, const ConfigTarget& target, const ConfigRule& rule,
                const ForeignWords& words, std::vector<ConfigMistake>& mistakes) {
  if (rule.null_is_default && is_null(node)) return;
  std::visit([&](auto* value) { ValueReader(rule, words, mistakes).read(node, path, *value); }, target);
}

ConfigNode to_node(const ConfigTarget& target) {
  return std::visit([](auto* value) { return node_of(*value); }, target);
}

std::string type_name(const ConfigTarget& target) {
  return std::visit([](auto* value) { return name_of(*value); }, target);
}

std::string allowed_values(const ConfigRule& rule) {
  std::string text = allowed_items(rule);
  const auto add = [&](const std::string& words) { text += (text.empty() ? "" : ", ") + words; };
  if (rule.count) add(fmt::format("{} of them", *rule.count));
  if (rule.ascending) add("ascending");
  return text;
}

}  // namespace lockstep::detail
