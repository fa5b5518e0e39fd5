// The options of a part that a configuration file names, such as a model: a value of a type that the part declares.
#pragma once

#include <lockstep/base/config_fields.h>

#include <any>
#include <utility>

namespace lockstep {

/// Holds a T that has a `describe` as in config.h. Its fields are keys of the part's section, beside those that all
/// parts of its kind have. A plain value.
class PartOptions {
 public:
  PartOptions() = default;

  template <typename T>
  static PartOptions of(T defaults) {
    PartOptions options;
    options.value_ = std::move(defaults);
    options.visit_ = [](ConfigFields& fields, std::any& value) { describe(fields, std::any_cast<T&>(value)); };
    return options;
  }

  /// The value; std::bad_any_cast for another type than the part's.
  template <typename T>
  const T& as() const {
    return std::any_cast<const T&>(value_);
  }

  void visit(ConfigFields& fields) {
    if (visit_ != nullptr) visit_(fields, value_);
  }

 private:
  std::any value_;
  void (*visit_)(ConfigFields&, std::any&) = nullptr;
};

}  // namespace lockstep
