#include <lockstep/base/error.h>
#include <lockstep/cluster/error_file.h>
#include <lockstep/cluster/exit_code.h>

#include <fmt/format.h>

#include <cstdio>

namespace lockstep::cluster {

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

int end_with(const std::exception& error, const std::string& message, const std::string& program) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  // First the file that a launcher reads, in case it is impatient.
  report_failure(message, ours != nullptr ? name(ours->kind()) : "exception");
  std::fflush(stdout);
  fmt::print(stderr, "{}: error: {}\n", program, message);
  return exit_code_for(error);
}

}  // namespace lockstep::cluster
