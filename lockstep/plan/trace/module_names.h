// The module that an operator belongs to, derived from the modules of its inputs. Pure.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::plan {

/// Modules by their names in the model ("blocks.0.fc1"); "" is the model itself.
std::string_view owner_of(std::string_view parameter);  ///< "blocks.0.fc1" of "blocks.0.fc1.weight"

/// The innermost module that both are in, or are.
std::string_view common_module(std::string_view a, std::string_view b);

/// The module of an operator that uses no parameter itself. `inputs` are the modules that its inputs come from, the one
/// that was at work last at the end: an operator belongs where its inputs come from and, where these differ, to the
/// module they are all in. What joins the outcome of one block with its input (a residual) belongs to that block: lists
/// and sequences of modules (`containers`), and the model itself, call no such operator.
std::string joining_module(std::span<const std::string> inputs, const std::set<std::string, std::less<>>& containers);

}  // namespace lockstep::plan
