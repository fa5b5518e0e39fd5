// Typed configuration: each field of a struct is described once, for reading, printing and documentation.
//
//   struct OptimizerConfig {
//     std::string name = "momentum";
//     double lr = 0.1;
//     std::optional<double> clip_norm;
//   };
//   void describe(ConfigFields& fields, OptimizerConfig& c) {   // in the namespace of the struct
//     fields.field("name", c.name, one_of({"sgd", "momentum"}), "the update rule");
//     fields.field("lr", c.lr, above(0), "learning rate before the schedule");
//     fields.field("clip_norm", c.clip_norm, above(0), "largest norm of all gradients together");
//   }
//   struct RunConfig { OptimizerConfig optimizer; };
//   void describe(ConfigFields& fields, RunConfig& c) { fields.section("optimizer", c.optimizer, "how to step"); }
//
//   RunConfig run = read_config<RunConfig>(load_config("run.yaml", overrides));
#pragma once

#include <lockstep/base/error.h>

#include <any>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep {

// A node of a configuration's YAML tree, with the position of every value in the file for error messages. Plain values
// and pure functions: thread-safe.

/// A plain value; copies are deep.
struct ConfigNode {
  enum class Kind { null, scalar, list, map };

  struct Entry;

  Kind kind = Kind::null;
  std::string scalar{};               ///< the text of a scalar, without quotes
  bool quoted = false;                ///< the scalar was in quotes: it is text, even if it looks like a number
  std::vector<ConfigNode> items{};    ///< items of a list
  std::vector<Entry> entries;         ///< entries of a map, in the order of the file, keys unique
  FilePosition position{};            ///< file and line, or `override 'train.epochs=3'` with line 0
  std::shared_ptr<bool> looked_at{};  ///< becomes true with find() and read_config(), also of copies; nullptr: unused

  /// The value under `key` of a map; nullptr when absent or when this is no map.
  const ConfigNode* find(std::string_view key) const;
};

struct ConfigNode::Entry {
  std::string key;
  ConfigNode value;  ///< its position is that of the key
};

/// Constructors of a null node, of a text scalar, and of a map without keys.
ConfigNode make_null(FilePosition position = {});
ConfigNode make_scalar(std::string text, bool quoted = false);
ConfigNode make_section(FilePosition position = {});

/// For messages: "nothing", "the text 'abc'", "a list", "a section".
std::string describe_found(const ConfigNode& node);

/// Parses one YAML document, for example `config.data.train_transforms = parse_yaml("[to_tensor]")`; an empty text is a
/// null node. Anchors, aliases and merge keys ("<<") are resolved. Error(config) at file:line, with a message for
/// users, for text that is not YAML, a duplicate key in a section, several documents, or an anchor that contains
/// itself.
ConfigNode parse_yaml(std::string_view text, const std::string& file = "the program");

/// YAML in block style, with lists of scalars in one line; ends with a newline.
std::string print_yaml(const ConfigNode& node);

/// One item of a list such as `[Resize: {size: 224}, HWC2CHW]`: a name with its arguments.
struct NamedArguments {
  std::string name;
  ConfigNode arguments;  ///< a map, or null when the item is a name without arguments
  FilePosition position;
};

/// Reads a list whose items are a name or a map of one name to its arguments; null is an empty list.
/// Error(config), beginning with `what` (the key path, e.g. "data.train.transforms"), for anything else.
std::vector<NamedArguments> read_named_list(const ConfigNode& node, std::string_view what);

// The source of a configuration: a YAML file over those that it builds on, with `key.path=value` overrides applied.
//
//   base: [../common/sgd.yaml, cifar10.yaml]   # a name or a list; relative to the folder of this file
//
// A base may have bases. The later of two files in the list has priority, and the file itself has the highest: maps are
// merged by key, any other value replaces the earlier one.

struct ConfigSource {
  std::string file;                  ///< name of the file in messages
  ConfigNode root;                   ///< a map, without the key `base`
  std::vector<std::string> files{};  ///< all that were read, each once: `file` is the last
};

/// Reads `path` and its bases, then applies the overrides in order; the value of an override is YAML too
/// (`train.epochs=3`, `model.hidden=[64, 64]`). Error(config) when the file cannot be read, with file:line, or naming
/// the override, for anything that is not YAML, duplicate keys included; for a missing base, and for
/// a file that builds on itself, with the chain of files.
ConfigSource load_config(const std::filesystem::path& path, std::span<const std::string> overrides = {});

/// The same for text already in memory, which has no bases; `file` is its name in messages.
ConfigSource parse_config(std::string_view text, std::string file, std::span<const std::string> overrides = {});

/// Lines of comments that name the keys from each file; empty for a single file.
std::string describe_origins(const ConfigSource& source);

// The visitor of `describe` functions (see config.h), and the rules a field may have.

/// The values that a field may have; for lists, the values of each item, except where a rule is about the list. Limits
/// are for numbers, choices for text; a choice that ends with ":N" means all choices with a number from 0 instead of N.
struct ConfigRule {
  std::optional<double> low{};
  std::optional<double> high{};
  bool low_excluded = false;
  bool high_excluded = false;
  std::vector<std::string> choices{};
  std::optional<std::size_t> count{};  ///< of a list: the number of its items
  bool ascending = false;              ///< a list of numbers, each larger than the one before
  bool null_is_default = false;        ///< null leaves the field as it is
  bool required = false;
  bool path = false;    ///< a path: ~/ at its beginning is the folder of the variable HOME
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

/// `rule` for a list with this number of items.
ConfigRule items(std::size_t count, ConfigRule rule = {});

/// `rule` for a list of numbers, each larger than the one before.
ConfigRule ascending(ConfigRule rule = {});

/// `rule` for a key that may be null, which means its default.
ConfigRule or_default(ConfigRule rule = {});

/// `rule` for the path of a file or folder, or a list of them: ~/ at its beginning becomes the folder of the variable
/// HOME, because shells leave it as it is in KEY=~/file.
ConfigRule a_path(ConfigRule rule = {});

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

  /// The purpose of the visit: to read values from a file, to show the current values, or to list all keys with their
  /// defaults.
  enum class Purpose { reading, printing, listing };
  virtual Purpose purpose() const { return Purpose::printing; }

  /// When reading: the value of this key, which was visited, is a mistake for `reason`, "is 3 but ...".
  virtual void refuse(std::string_view /*key*/, std::string_view /*reason*/) {}

  /// One key. `target` is the address of the field.
  template <typename T>
  void field(std::string_view key, T& value, const ConfigRule& rule, std::string_view doc) {
    visit(key, ConfigTarget(&value), rule, doc);
  }

  /// A nested struct with a `describe` function.
  template <typename T>
  void section(std::string_view key, T& value, std::string_view doc) {
    if (!enter(key, doc)) return;
    describe(*this, value);
    leave();
  }

  /// The same for keys that depend on more than one struct: `describe_keys` describes them.
  void section(std::string_view key, const std::function<void(ConfigFields&)>& describe_keys, std::string_view doc) {
    if (!enter(key, doc)) return;
    describe_keys(*this);
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
/// Checks values that a program has set by the rules of their keys. Error(config) as from read_fields, without places.
void check_fields(const Describe& describe);
std::string print_fields(const Describe& describe);
std::vector<ConfigKey> list_fields(const Describe& describe);

// The options of a part that a configuration file names, such as a model: a value of a type that the part declares.

namespace detail {
[[noreturn]] void fail_wrong_options(const std::string& part, const std::type_info& given, const std::type_info& read);
}

/// Holds a T that has a `describe` as in config.h. Its fields are keys of the part's section, in addition to those that
/// all parts of its kind have. A plain value.
class PartOptions {
 public:
  PartOptions() = default;

  template <typename T>
  static PartOptions of(T defaults, std::string part = "") {
    PartOptions options;
    options.part_ = std::move(part);
    options.value_ = std::move(defaults);
    options.visit_ = [](ConfigFields& fields, std::any& value) { describe(fields, std::any_cast<T&>(value)); };
    return options;
  }

  /// A copy with each visit of its fields wrapped: `around` gets the visit as a function and must call it.
  PartOptions visited_by(std::function<void(const std::function<void()>& visit)> around) const {
    PartOptions options = *this;
    if (!visit_) return options;
    options.visit_ = [visit = visit_, around = std::move(around)](ConfigFields& fields, std::any& value) {
      around([&] { visit(fields, value); });
    };
    return options;
  }

  /// The value. Error(invalid_argument) with both types for another type than the value's.
  template <typename T>
  const T& as() const {
    if (const auto* value = std::any_cast<T>(&value_)) return *value;
    detail::fail_wrong_options(part_, value_.type(), typeid(T));
  }

  /// The name of the part that has these keys; empty for the defaults that a part declares.
  const std::string& part() const { return part_; }
  PartOptions named(std::string part) const {
    PartOptions options = *this;
    options.part_ = std::move(part);
    return options;
  }

  void visit(ConfigFields& fields) {
    if (visit_) visit_(fields, value_);
  }

 private:
  std::string part_;
  std::any value_;
  std::function<void(ConfigFields&, std::any&)> visit_;
};

/// Fills `config` from a source; keys that are absent keep their value. All mistakes found (unknown keys, wrong types,
/// values out of range, missing required keys) are reported in one Error(config), the first ten in full; its position
/// is that of the first.
template <typename T>
void read_config(const ConfigSource& source, T& config) {
  read_fields(source.root, "", [&](ConfigFields& fields) { describe(fields, config); });
}

template <typename T>
T read_config(const ConfigSource& source) {
  T config;
  read_config(source, config);
  return config;
}

/// The same for a part of a source, e.g. the arguments of one item of a list; `path` is the prefix of the keys in
/// messages. A null node is an empty section.
template <typename T>
T read_config(const ConfigNode& node, std::string_view path) {
  T config;
  read_fields(node, path, [&](ConfigFields& fields) { describe(fields, config); });
  return config;
}

/// The whole configuration as YAML; `read_config` of that text gives an equal configuration.
template <typename T>
std::string print_config(T config) {
  return print_fields([&](ConfigFields& fields) { describe(fields, config); });
}

/// All keys, in the order of their description, with T's defaults.
template <typename T>
std::vector<ConfigKey> list_keys() {
  T config;
  return list_fields([&](ConfigFields& fields) { describe(fields, config); });
}

}  // namespace lockstep
