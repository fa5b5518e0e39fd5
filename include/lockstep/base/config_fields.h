// The visitor of `describe` functions (see config.h), and the rules a field may have.
#pragma once

#include <lockstep/base/config_node.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace lockstep {

/// The values that a field may have; for lists, the values of each item. Limits are for numbers, choices for text.
struct ConfigRule {
  std::optional<double> low{};
  std::optional<double> high{};
  bool low_excluded = false;
  bool high_excluded = false;
  std::vector<std::string> choices{};
  bool required = false;
  bool hidden = false;  ///< a password: not printed, and not taken from the command line
};

ConfigRule anything();
ConfigRule at_least(double low);
ConfigRule above(double low);
ConfigRule between(double low, double high);        ///< both included
ConfigRule from_to_below(double low, double high);  ///< low included, high excluded
ConfigRule one_of(std::vector<std::string> choices);

/// The rule of a password. It is not printed, and must not be given as an override on the command line, which every
/// process can see.
ConfigRule hidden();

/// `rule` for a key that must be given.
ConfigRule required(ConfigRule rule = {});

/// The address of a field, which also gives its type.
using ConfigTarget =
    std::variant<bool*, std::int64_t*, double*, std::string*, std::optional<bool>*, std::optional<std::int64_t>*,
                 std::optional<double>*, std::optional<std::string>*, std::vector<std::int64_t>*, std::vector<double>*,
                 std::vector<std::string>*, ConfigNode*>;

class ConfigFields {
 public:
  virtual ~ConfigFields() = default;

  /// One key. `target` is the address of the field.
  template <typename T>
  void field(std::string_view key, T& value, const ConfigRule& rule, std::string_view doc) {
    visit(key, ConfigTarget(&value), rule, doc);
  }

  /// A nested struct with its own `describe`.
  template <typename T>
  void section(std::string_view key, T& value, std::string_view doc) {
    if (!enter(key, doc)) return;
    describe(*this, value);
    leave();
  }

  /// A nested struct that may be absent: it is present when its key is given (even with an empty section), and absent
  /// when the key is missing or `null`.
  template <typename T>
  void section(std::string_view key, std::optional<T>& value, std::string_view doc) {
    const bool present = enter_optional(key, value.has_value(), doc);
    if (!present) {
      value.reset();
      return;
    }
    if (!value) value.emplace();
    describe(*this, *value);
    leave();
  }

 protected:
  virtual void visit(std::string_view key, ConfigTarget target, const ConfigRule& rule, std::string_view doc) = 0;
  virtual bool enter(std::string_view key, std::string_view doc) = 0;
  virtual bool enter_optional(std::string_view key, bool present, std::string_view doc) = 0;
  virtual void leave() = 0;
};

/// One line of the documentation of a configuration.
struct ConfigKey {
  std::string path;           ///< "optimizer.lr"
  std::string type;           ///< "number", "integer", "text", "true/false", "list of integers", "section", ...
  std::string default_value;  ///< as YAML; "required" for a key without one
  std::string allowed;        ///< "above 0", "sgd | momentum"; empty when every value is allowed
  std::string doc;
};

using Describe = std::function<void(ConfigFields&)>;

void read_fields(const ConfigNode& node, std::string_view path, const Describe& describe);
std::string print_fields(const Describe& describe);
std::vector<ConfigKey> list_fields(const Describe& describe);

}  // namespace lockstep
