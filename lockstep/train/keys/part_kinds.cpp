// A visitor of the keys of all parts of a section that finds given keys which the chosen part does not have.
#include <lockstep/base/config_values.h>
#include <lockstep/base/error.h>
#include <lockstep/base/yaml_text.h>
#include <lockstep/train/keys/part_kinds.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <variant>

namespace lockstep::train {
namespace {

/// The names of keys.
class KeyNames final : public ConfigFields {
 public:
  std::vector<std::string> names;

 protected:
  void visit(std::string_view key, ConfigTarget, const ConfigRule&, std::string_view) override {
    names.emplace_back(key);
  }
  bool enter(std::string_view key, std::string_view) override {
    names.emplace_back(key);
    return false;
  }
  bool enter_optional(std::string_view key, bool, std::string_view doc) override { return enter(key, doc); }
  void leave() override {}
};

std::vector<std::string> keys_of(PartOptions options) {
  KeyNames keys;
  options.visit(keys);
  return keys.names;
}

bool contains(const std::vector<std::string>& keys, std::string_view key) {
  return std::ranges::find(keys, key) != keys.end();
}

/// Forwards the keys that were not visited before, and reports the keys that got another value.
class UnusedKeys final : public ConfigFields {
 public:
  using Given = std::function<void(const std::string& key, const std::string& value)>;

  UnusedKeys(ConfigFields& file, std::vector<std::string> seen, Given given)
      : file_(file), seen_(std::move(seen)), given_(std::move(given)) {}

 protected:
  void visit(std::string_view key, ConfigTarget target, const ConfigRule& rule, std::string_view doc) override {
    if (contains(seen_, key)) return;
    seen_.emplace_back(key);
    ConfigRule own = rule;
    own.required = false;
    const auto before = print_yaml_flow(lockstep::detail::to_node(target));
    std::visit([&](auto* value) { file_.field(key, *value, own, doc); }, target);
    const auto now = print_yaml_flow(lockstep::detail::to_node(target));
    if (now != before) given_(std::string(key), now);
  }
  bool enter(std::string_view, std::string_view) override { return false; }
  bool enter_optional(std::string_view, bool, std::string_view) override { return false; }
  void leave() override {}

 private:
  ConfigFields& file_;
  std::vector<std::string> seen_;
  Given given_;
};

class RootField final : public ConfigFields {
 public:
  std::string* root = nullptr;

 private:
  void visit(std::string_view key, ConfigTarget target, const ConfigRule& /*rule*/, std::string_view /*doc*/) override {
    if (key == "root" && std::holds_alternative<std::string*>(target)) root = std::get<std::string*>(target);
  }
  bool enter(std::string_view /*key*/, std::string_view /*doc*/) override { return false; }
  bool enter_optional(std::string_view /*key*/, bool present, std::string_view /*doc*/) override { return present; }
  void leave() override {}
};

}  // namespace

std::string* root_of(PartOptions& options) {
  RootField field;
  options.visit(field);
  return field.root;
}

PartOptions data_options(const DataConfig& config, const DataPart& part) {
  PartOptions options = options_of(config, part);
  auto* root = config.root.empty() ? nullptr : root_of(options);
  if (root != nullptr && root->empty()) *root = config.root;
  return options;
}

void require_options_of(const PartOptions& chosen, std::string_view name, const PartOptions& declared,
                        std::string_view key) {
  if (chosen.part().empty()) return;
  if (chosen.part() != name) {
    fail(ErrorKind::config, key, "is {}, and choose() gave the options of {}; call choose() with the name that counts",
         name, chosen.part());
  }
  const auto given = keys_of(chosen), own = keys_of(declared);
  if (given == own) return;
  const auto text = [](const std::vector<std::string>& keys) {
    return keys.empty() ? std::string("none") : fmt::format("{}", fmt::join(keys, ", "));
  };
  fail(ErrorKind::config, key, "{} has the options {}, and choose() gave those of another part: {}", name, text(own),
       text(given));
}

std::vector<std::string> take_unused_keys(ConfigFields& fields, const NamedOptions& own,
                                          const std::vector<NamedOptions>& others, std::string_view name_key,
                                          std::span<const std::string_view> telling) {
  std::vector<std::string> unused;
  const auto given = [&](const std::string& key, const std::string& value) {
    if (std::ranges::find(telling, key) == telling.end()) {
      unused.push_back(fmt::format("{}: {}", key, value));
      return;
    }
    std::vector<std::string> owners;
    for (const auto& each : others) {
      if (contains(keys_of(each.options), key)) owners.push_back(each.name);
    }
    fields.refuse(key, fmt::format("is {} but {} {} has no {}, which {} have; remove it, or give another {}", value,
                                   name_key, own.name, key, fmt::join(owners, ", "), name_key));
  };
  UnusedKeys keys(fields, keys_of(own.options), given);
  for (auto other : others) other.options.visit(keys);
  return unused;
}

}  // namespace lockstep::train
