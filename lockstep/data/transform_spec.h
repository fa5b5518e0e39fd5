// Transforms as written in a configuration: names and arguments, with their positions in the file.
#pragma once

#include <lockstep/base/error.h>

#include <string>
#include <variant>
#include <vector>

namespace lockstep::data {

using TransformValue = std::variant<double, std::vector<double>, std::string>;

struct TransformArgument {
  std::string name;
  TransformValue value;
  FilePosition position;
};

/// E.g. `random_crop: {size: 32, padding: 4}`.
struct TransformSpec {
  std::string name;
  std::vector<TransformArgument> arguments;  ///< in the order of the file
  FilePosition position;
};

}  // namespace lockstep::data
