// Transforms as written in a configuration: names and arguments, with their positions in the file.
#pragma once

#include <lockstep/base/error.h>

#include <string>
#include <variant>
#include <vector>

namespace lockstep::data {

/// The value of an argument: a number (integers, too; sizes are in pixels), a list of numbers, or a word.
using TransformValue = std::variant<double, std::vector<double>, std::string>;

struct TransformArgument {
  std::string name;
  TransformValue value;
  FilePosition position;
};

/// E.g. `random_crop: {size: 32, padding: 4}`. All names and arguments are in docs/configuration.md#transforms;
/// Pipeline checks them. Positions are for its error messages, and may be empty.
struct TransformSpec {
  std::string name;
  std::vector<TransformArgument> arguments;  ///< in the order of the file
  FilePosition position;
};

}  // namespace lockstep::data
