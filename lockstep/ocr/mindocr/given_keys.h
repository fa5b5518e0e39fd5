// The keys of another program's configuration, which are taken out one by one, so that those that are left are known.
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

  /// Takes the value of "train.dataset.type" out; nullopt where it is not given, or is null.
  std::optional<ConfigNode> take(std::string_view path);
  /// The same as text; "" where it is not given, and where it is a list or a section, which then is not taken.
  std::string take_text(std::string_view path);
  /// Takes keys that say nothing which another program has to know; passed() has those that were given.
  void pass_over(std::string_view section, std::initializer_list<std::string_view> keys);
  /// Whether the value at `path` is that text, which then needs no key; it is taken. A value that is not given counts.
  bool take_if(std::string_view path, std::initializer_list<std::string_view> texts);

  /// The paths of all values that nobody took, with their lines: "train.dataset.mosaic (line 12)".
  std::vector<std::string> left() const;
  /// The paths that were passed over.
  const std::vector<std::string>& passed() const { return passed_; }

 private:
  ConfigNode root_;
  std::vector<std::string> passed_;
};

/// Sets "a.b.c" in a tree, and makes the sections on the way.
void set_key(ConfigNode& root, std::string_view path, ConfigNode value);

ConfigNode text_node(std::string text);
ConfigNode list_node(std::vector<ConfigNode> items);
/// `name`, or `name: {arguments}` where there are any.
ConfigNode named_node(const std::string& name, const std::vector<std::pair<std::string, ConfigNode>>& arguments);

}  // namespace lockstep::ocr
