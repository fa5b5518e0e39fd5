#include <lockstep/base/error.h>
#include <lockstep/cli/command.h>
#include <lockstep/cli/failure.h>
#include <lockstep/cluster/error_file.h>

#include <fmt/format.h>

#include <cstdio>

namespace lockstep::cli {

int exit_code_for(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  if (ours == nullptr) return kFailed;
  switch (ours->kind()) {
    case ErrorKind::invalid_argument:
    case ErrorKind::config:
    case ErrorKind::environment: return kUsage;
    default: return kFailed;
  }
}

int report_failure(const std::exception& error, const std::string& message) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  // First the file that a launcher reads, in case it is impatient.
  cluster::report_failure(message, ours != nullptr ? name(ours->kind()) : "exception");
  std::fflush(stdout);
  fmt::print(stderr, "lockstep: error: {}\n", message);
  return exit_code_for(error);
}

}  // namespace lockstep::cli
