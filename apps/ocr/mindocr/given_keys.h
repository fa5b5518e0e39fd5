// The keys of another program's configuration, which are removed one by one, so that the remaining ones can be
// reported.
#pragma once

#include <lockstep/base/config.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::ocr {

class GivenKeys {
 public:
  explicit GivenKeys(ConfigNode root) : root_(std::move(root)) {}

  /// Takes the value of "train.dataset.type" out; nullopt if it is not given, or is null.
  std::optional<ConfigNode> take(std::string_view path);
  /// The same as text; "" if it is not given, and if it is a list or a section, which is then not taken.
  std::string take_text(std::string_view path);
  /// Takes keys that have no meaning for another program; passed() has those that were given.
  void pass_over(std::string_view section, std::initializer_list<std::string_view> keys);
  /// Whether the value at `path` is that text, so that no key is needed; it is then taken. A missing value counts as
  /// equal.
  bool take_if(std::string_view path, std::initializer_list<std::string_view> texts);

  /// The paths of all values that were not taken, with their lines: "train.dataset.mosaic (line 12)".
  std::vector<std::string> left() const;
  /// The paths of ignored keys.
  const std::vector<std::string>& passed() const { return passed_; }

 private:
  ConfigNode root_;
  std::vector<std::string> passed_;
};

/// Sets "a.b.c" in a tree, and makes the sections of its path.
void set_key(ConfigNode& root, std::string_view path, ConfigNode value);

ConfigNode text_node(std::string text);
ConfigNode list_node(std::vector<ConfigNode> items);
/// `name`, or `name: {arguments}` where there are any.
ConfigNode named_node(const std::string& name, const std::vector<std::pair<std::string, ConfigNode>>& arguments);

}  // namespace lockstep::ocr
