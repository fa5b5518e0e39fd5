// The module that an operator belongs to, found from the modules of its inputs. Pure.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::global {

/// The module of a parameter: "blocks.0.fc1" of "blocks.0.fc1.weight"; "", the model itself, without a dot.
inline std::string_view owner_of(std::string_view parameter) {
  const auto dot = parameter.rfind('.');
  return parameter.substr(0, dot == std::string_view::npos ? 0 : dot);
}

/// Whether `name` is `module` or one of the modules in it; the empty name is that of the model itself.
bool is_inside(std::string_view name, std::string_view module);

/// The innermost module that contains both (or is one of them).
std::string_view common_module(std::string_view a, std::string_view b);

/// The module of an operator without parameters. `inputs` are the modules that produced its inputs, the most recent one
/// last. If they differ, the operator belongs to the innermost module that contains all of them. Exception: an operator
/// that combines the result of a block with the block's input (a residual) belongs to that block, because lists and
/// sequences of modules (`containers`), and the model itself, do not call such operators.
std::string joining_module(std::span<const std::string> inputs, const std::set<std::string, std::less<>>& containers);

}  // namespace lockstep::global
