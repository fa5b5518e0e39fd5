// The only exception type of Lockstep, for failures that a user can correct.
//
// Broken invariants of Lockstep itself are bugs and use `assert`-like checks, not this type; docs/errors.md defines
// which failures are errors.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep {

/// The category of a failure, by which a caller can decide whether to retry.
enum class ErrorKind {
  invalid_argument,  ///< the caller passed a value that breaks a rule
  config,            ///< a configuration file or an override is wrong
  environment,       ///< variables of the environment are missing or contradict each other
  io,                ///< a file, disk or socket failed
  data,              ///< a data set or checkpoint violates its format
  timeout,           ///< a deadline passed; the message names the ranks that were waited for
  peer_lost,         ///< another rank was lost or left the job; the message names it
  mismatch,          ///< ranks called the same collective with different arguments
  unsupported,       ///< this build or backend does not support it
  numeric,           ///< training produced NaN or Inf
};

/// Printable name of a kind, e.g. "peer_lost".
std::string_view name(ErrorKind kind);

/// A position in a file that the user wrote; line 0 means "the whole file", an empty file name means "no file".
struct FilePosition {
  std::string file;
  int line = 0;
};

/// The exception that Lockstep throws for failures that a user can correct. Copies are cheap enough to pass between
/// threads. `what()` reads `[where] message (file:line)`. The message states the rule, the actual values and the fix.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string_view where, std::string_view message, FilePosition position = {});

  ErrorKind kind() const noexcept { return kind_; }
  const std::string& where() const noexcept { return where_; }
  const std::string& message() const noexcept { return message_; }
  const FilePosition& position() const noexcept { return position_; }

 private:
  ErrorKind kind_;
  std::string where_;
  std::string message_;
  FilePosition position_;
};

/// Throws an Error with a formatted message: `fail(ErrorKind::io, "checkpoint", "cannot write {}: {}", path, why)`.
template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, std::string_view where, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, where, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lockstep
