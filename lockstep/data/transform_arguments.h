// The strict reader of the arguments of one transform.
#pragma once

#include <lockstep/data/loader.h>

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

struct NumberRange {
  double low;
  double high;
};

class TransformArguments {
 public:
  /// Error(config) for arguments that are not among `known`, or that are given twice. `spec` must outlive this.
  TransformArguments(const TransformSpec& spec, const std::vector<std::string>& known);

  /// Required unless `fallback` is given.
  double number(std::string_view name, NumberRange range, std::optional<double> fallback = std::nullopt) const;

  /// A number, or a list whose length is one of `lengths`; a number counts as a list of one. Required unless `fallback`
  /// is given. `meaning` describes the list, e.g. "[height, width]".
  std::vector<double> numbers(std::string_view name, NumberRange range, std::initializer_list<std::size_t> lengths,
                              std::string_view meaning, std::optional<double> fallback = std::nullopt) const;

  /// The same for integers.
  std::vector<int> integers(std::string_view name, NumberRange range, std::initializer_list<std::size_t> lengths,
                            std::string_view meaning, std::optional<int> fallback = std::nullopt) const;

  std::string choice(std::string_view name, const std::vector<std::string>& choices) const;

 private:
  const TransformArgument* find(std::string_view name) const;
  const TransformArgument& require(std::string_view name) const;

  const TransformSpec& spec_;
};

}  // namespace lockstep::data
