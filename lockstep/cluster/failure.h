// The failure of a program of Lockstep's, as passed to its launcher: the exit code, and the error file, whose format is
// torchrun's (TORCHELASTIC_ERROR_FILE).
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/base/process.h>
#include <lockstep/cluster/spawn.h>

#include <chrono>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::cluster {

// Exit codes of Lockstep's programs.
inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;  ///< the run, the check or a rank failed
inline constexpr int kUsage = 2;   ///< the command line, the configuration or the environment is wrong
/// The job went on or ended well without this launcher. sysexits.h calls it EX_UNAVAILABLE.
inline constexpr int kUnneeded = 69;
/// SIGTERM or SIGUSR1 ended a run early, with a checkpoint: start it again. sysexits.h calls it EX_TEMPFAIL.
inline constexpr int kEndedEarly = 75;

/// The kind in the error file of a launcher that its job did not need.
inline constexpr std::string_view kUnneededKind = "unneeded";

/// 2 for errors in the user's input (arguments, configuration, environment), 1 for all others.
int exit_code_for(const std::exception& error);

/// Leaves `text` (for std::bad_alloc: what to do) for a launcher around this process and prints it as that of
/// `program`; returns the exit code.
int end_with(const std::exception& error, const std::string& text, const std::string& program = "lockstep");

/// The error file of a rank, as its launcher reads it. The format is torchrun's (TORCHELASTIC_ERROR_FILE).
struct FailureNote {
  std::string message;
  std::string kind;  ///< name of the ErrorKind; empty when a program other than Lockstep's wrote the file
  std::optional<std::chrono::system_clock::time_point>
      when;  ///< only from Lockstep's programs: other programs round to seconds

  /// A signal ended the rank's run early, in an orderly way.
  bool is_early_end() const { return kind == "ended_early"; }

  /// A program of Lockstep's reports that its command line, configuration or environment is wrong.
  bool is_users_mistake() const { return kind == "config" || kind == "invalid_argument" || kind == "environment"; }

  /// The rank failed because another one did.
  bool is_consequence() const { return kind == "peer_lost"; }
};

/// Copies the root cause of a failed job, as its rank wrote it to `root_cause`, to the file that `environment` names in
/// TORCHELASTIC_ERROR_FILE, if any. Adds message.errorCode: how the rank ended, in torchrun's numbering (an exit code,
/// or -N for signal N). Writes `report` instead where the rank's file cannot be read. Best effort.
void pass_on_failure(const std::filesystem::path& root_cause, const ExitStatus& status, std::string_view report,
                     const Environment& environment) noexcept;

/// Reads the error file of a rank; nullopt when there is no file or it is not in the format. Accepts also
/// {"message": "text"}.
std::optional<FailureNote> read_error_file(const std::filesystem::path& path);

}  // namespace lockstep::cluster
