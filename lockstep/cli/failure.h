// Reporting of a failure by Lockstep's programs: the exit code and the message.
#pragma once

#include <exception>
#include <string>

namespace lockstep::cli {

/// 2 for errors in what the user wrote (arguments, configuration, environment), 1 for all others.
int exit_code_for(const std::exception& error);

/// Leaves `message` for a launcher around this process and prints it; returns the exit code.
int report_failure(const std::exception& error, const std::string& message);

}  // namespace lockstep::cli
