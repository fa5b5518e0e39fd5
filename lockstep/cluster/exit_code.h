// The end of Lockstep's programs: their exit codes, and the report of a failure.
#pragma once

#include <exception>
#include <string>

namespace lockstep::cluster {

inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;  ///< the run, the check or a rank failed
inline constexpr int kUsage = 2;   ///< the command line, the configuration or the environment is wrong
/// SIGTERM or SIGUSR1 ended a run early, with a checkpoint: start it again. sysexits.h calls it EX_TEMPFAIL.
inline constexpr int kEndedEarly = 75;

/// 2 for errors in what the user wrote (arguments, configuration, environment), 1 for all others.
int exit_code_for(const std::exception& error);

/// Leaves `message` for a launcher around this process and prints it as that of `program`; returns the exit code.
int end_with(const std::exception& error, const std::string& message, const std::string& program = "lockstep");

}  // namespace lockstep::cluster
