// A node of a configuration's YAML tree, with the position of every value in the file for error messages. Plain values
// and pure functions: thread-safe.
#pragma once

#include <lockstep/base/error.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// A plain value; copies are deep.
struct ConfigNode {
  enum class Kind { null, scalar, list, map };

  struct Entry;

  Kind kind = Kind::null;
  std::string scalar{};             ///< the text of a scalar, without quotes
  bool quoted = false;              ///< the scalar was in quotes: it is text, even if it looks like a number
  std::vector<ConfigNode> items{};  ///< items of a list
  std::vector<Entry> entries;       ///< entries of a map, in the order of the file, keys unique
  FilePosition position{};          ///< file and line, or `override 'train.epochs=3'` with line 0

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

/// One item of a list such as `[Resize: {size: 224}, HWC2CHW]`: a name with its arguments.
struct NamedArguments {
  std::string name;
  ConfigNode arguments;  ///< a map, or null when the item is a name without arguments
  FilePosition position;
};

/// Reads a list whose items are a name or a map of one name to its arguments; null is an empty list.
/// Error(config), beginning with `what` (the key path, e.g. "data.train.transforms"), for anything else.
std::vector<NamedArguments> read_named_list(const ConfigNode& node, std::string_view what);

}  // namespace lockstep
