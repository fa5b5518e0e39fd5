// The module that an operator belongs to, derived from the modules of its inputs. Pure.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::plan {

/// The module of a parameter. Modules are given by their names in the model ("blocks.0.fc1"); "" is the model itself.
std::string_view owner_of(std::string_view parameter);  ///< "blocks.0.fc1" of "blocks.0.fc1.weight"

/// The innermost module that contains both (or is one of them).
std::string_view common_module(std::string_view a, std::string_view b);

/// The module of an operator without parameters. `inputs` are the modules that produced its inputs, the most recent one
/// last. If they differ, the operator belongs to the innermost module that contains all of them. Exception: an operator
/// that combines the result of a block with the block's input (a residual) belongs to that block, because lists and
/// sequences of modules (`containers`), and the model itself, do not call such operators.
std::string joining_module(std::span<const std::string> inputs, const std::set<std::string, std::less<>>& containers);

}  // namespace lockstep::plan
