// A visitor of the configuration fields that are paths; it replaces ~/ at their beginning by HOME.
#include <lockstep/base/home_paths.h>

#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>

#include <cstddef>
#include <functional>
#include <type_traits>
#include <utility>

namespace lockstep {
namespace {

/// Calls a function for each field that is a path.
class PathFields final : public ConfigFields {
 public:
  using OnPath = std::function<void(const std::string& key, const ConfigTarget& target)>;
  explicit PathFields(OnPath found) : found_(std::move(found)) {}

 protected:
  void visit(std::string_view key, ConfigTarget target, const ConfigRule& rule, std::string_view) override {
    if (rule.path) found_(section_ + std::string(key), target);
  }
  bool enter(std::string_view key, std::string_view) override {
    lengths_.push_back(section_.size());
    section_ += std::string(key) + ".";
    return true;
  }
  bool enter_optional(std::string_view key, bool present, std::string_view doc) override {
    return present && enter(key, doc);
  }
  void leave() override {
    section_.resize(lengths_.back());
    lengths_.pop_back();
  }

 private:
  OnPath found_;
  std::string section_;
  std::vector<std::size_t> lengths_;
};

void expand_home_in(const ConfigTarget& target) {
  std::visit(
      []([[maybe_unused]] auto* value) {
        using Value = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::string>) {
          *value = with_home(std::move(*value));
        } else if constexpr (std::is_same_v<Value, std::optional<std::string>>) {
          if (*value) *value = with_home(std::move(**value));
        } else if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
          for (auto& each : *value) each = with_home(std::move(each));
        }
      },
      target);
}

}  // namespace

std::string with_home(std::string path) {
  if (!path.starts_with("~/")) return path;
  const auto home = find(current_environment(), "HOME");
  if (!home) {
    fail(ErrorKind::config, "config", "{} begins with ~, and the variable HOME is not set; write the whole path", path);
  }
  return path.replace(0, 1, *home);
}

void expand_home(const Describe& describe) {
  PathFields paths([](const std::string&, const ConfigTarget& target) { expand_home_in(target); });
  describe(paths);
}

std::vector<std::string> path_keys(const Describe& describe) {
  std::vector<std::string> keys;
  PathFields paths([&](const std::string& key, const ConfigTarget&) { keys.push_back(key); });
  describe(paths);
  return keys;
}

void read_options(const ConfigNode& node, std::string_view path, PartOptions& options, const ForeignWords& words) {
  read_fields(node, path, words, [&](ConfigFields& fields) { options.visit(fields); });
  expand_home([&](ConfigFields& fields) { options.visit(fields); });
}

}  // namespace lockstep
