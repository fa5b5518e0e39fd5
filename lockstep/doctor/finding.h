// The findings of the doctor: notes, warnings and errors.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::doctor {

enum class Severity {
  note,     ///< nothing to do
  warning,  ///< a job will run, but slowly, or with restrictions for other software
  error,    ///< a job will not run
};

/// "note", "warning", "error".
std::string_view name(Severity severity);

struct Finding {
  Severity severity = Severity::note;
  std::string check;  ///< name of the check, e.g. "links"
  std::string where;  ///< "host b (rank 1)", or the failing pair "host a (rank 0) -> host b (rank 1)"
  std::string what;   ///< the rule and the actual values
  std::string fix;    ///< how to fix it

  bool operator==(const Finding&) const = default;
};

std::size_t count(std::span<const Finding> findings, Severity severity);

}  // namespace lockstep::doctor
