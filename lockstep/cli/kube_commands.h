// The subcommands about Kubernetes. The small program runs them itself: they need no libtorch, and so do images of the
// operator.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::cli {

/// Parses and executes the command if `words` (without the program) begin with one of these commands; nullopt: they do
/// not. Errors: those of the command.
std::optional<int> run_kube_command(const std::vector<std::string>& words);

}  // namespace lockstep::cli
