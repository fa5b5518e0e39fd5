// The printing and the listing visitor, which read a configuration without changing it.
#include <lockstep/base/config.h>
#include <lockstep/base/config_values.h>
#include <lockstep/base/yaml_text.h>

#include <fmt/format.h>

#include <utility>

namespace lockstep {
namespace {

class Printer final : public ConfigFields {
 public:
  Printer() { open_.push_back({"", make_section()}); }

  std::string text() const { return print_yaml(open_.front().value); }

 protected:
  void visit(std::string_view key, ConfigTarget target, const ConfigRule& rule, std::string_view /*doc*/) override {
    add(key, rule.hidden ? ConfigNode{} : detail::to_node(target));
  }

  bool enter(std::string_view key, std::string_view /*doc*/) override {
    open_.push_back({std::string(key), make_section()});
    return true;
  }

  bool enter_optional(std::string_view key, bool present, std::string_view doc) override {
    if (present) return enter(key, doc);
    add(key, {});
    return false;
  }

  void leave() override {
    auto [key, section] = std::move(open_.back());
    open_.pop_back();
    add(key, std::move(section));
  }

 private:
  void add(std::string_view key, ConfigNode value) {
    open_.back().value.entries.push_back({std::string(key), std::move(value)});
  }

  std::vector<ConfigNode::Entry> open_;  ///< the sections around the next field, outermost first
};

class Lister final : public ConfigFields {
 public:
  std::vector<ConfigKey> keys() && { return std::move(keys_); }
  Purpose purpose() const override { return Purpose::listing; }

 protected:
  void visit(std::string_view key, ConfigTarget target, const ConfigRule& rule, std::string_view doc) override {
    keys_.push_back({path_of(key), detail::type_name(target),
                     rule.required ? "required" : print_yaml_flow(detail::to_node(target)),
                     detail::allowed_values(rule), std::string(doc)});
  }

  bool enter(std::string_view key, std::string_view doc) override { return open(key, "section", "", doc); }

  bool enter_optional(std::string_view key, bool present, std::string_view doc) override {
    return open(key, "section, may be null", present ? "" : "~", doc);
  }

  void leave() override { open_.pop_back(); }

 private:
  bool open(std::string_view key, std::string_view type, std::string_view default_value, std::string_view doc) {
    keys_.push_back({path_of(key), std::string(type), std::string(default_value), "", std::string(doc)});
    open_.push_back(path_of(key));
    return true;
  }

  std::string path_of(std::string_view key) const {
    return open_.empty() ? std::string(key) : fmt::format("{}.{}", open_.back(), key);
  }

  std::vector<std::string> open_;  ///< paths of the sections around the next field
  std::vector<ConfigKey> keys_;
};

}  // namespace

std::string print_fields(const Describe& describe) {
  Printer printer;
  describe(printer);
  return printer.text();
}

std::vector<ConfigKey> list_fields(const Describe& describe) {
  Lister lister;
  describe(lister);
  return std::move(lister).keys();
}

}  // namespace lockstep
