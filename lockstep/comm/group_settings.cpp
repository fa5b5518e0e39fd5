// The options of connect() after LOCKSTEP_BACKEND, LOCKSTEP_TIMEOUT_S and the like have replaced their values, checked.
#include <lockstep/comm/group_settings.h>

#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/text.h>
#include <lockstep/comm/backends.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <string>

namespace lockstep::detail {
namespace {

std::string known_backend(std::string name, ErrorKind kind, std::string_view where) {
  const auto choices = backend_choices();
  if (std::find(choices.begin(), choices.end(), name) != choices.end()) return name;
  fail(kind, where, "no backend is called \"{}\"; there are {}{}", name, fmt::join(choices, ", "),
       did_you_mean(name, choices));
}

std::optional<std::chrono::milliseconds> seconds_in(const Environment& environment, std::string_view name) {
  const auto text = find(environment, name);
  if (!text) return std::nullopt;
  constexpr double kLongest = 365.0 * 24 * 3600;
  const auto value = parse_number(*text);
  if (!value || *value < 0.001 || *value > kLongest) {
    fail(ErrorKind::environment, "connect", "{}=\"{}\" must be a number of seconds, at least 0.001", name, *text);
  }
  return std::chrono::milliseconds(std::llround(*value * 1000));
}

std::optional<bool> zero_or_one(const Environment& environment, std::string_view name) {
  const auto value = find_integer(environment, name, 0, 1);
  return value ? std::optional<bool>(*value == 1) : std::nullopt;
}

}  // namespace

GroupOptions with_environment(GroupOptions options, const Environment& environment) {
  known_backend(options.backend, ErrorKind::invalid_argument, "connect");
  if (const auto name = find(environment, "LOCKSTEP_BACKEND")) {
    options.backend = known_backend(*name, ErrorKind::environment, "LOCKSTEP_BACKEND");
  }
  options.timeout = seconds_in(environment, "LOCKSTEP_TIMEOUT_S").value_or(options.timeout);
  options.start_timeout = seconds_in(environment, "LOCKSTEP_START_TIMEOUT_S").value_or(options.start_timeout);
  options.host_timeout = seconds_in(environment, "LOCKSTEP_HOST_TIMEOUT_S").value_or(options.host_timeout);
  options.check_collectives =
      zero_or_one(environment, "LOCKSTEP_CHECK_COLLECTIVES").value_or(options.check_collectives);
  options.encrypt = zero_or_one(environment, "LOCKSTEP_ENCRYPT").value_or(options.encrypt) || options.backend == "tls";
  if (options.encrypt && options.backend != "auto" && !backend_called(options.backend).encrypts) {
    fail(ErrorKind::invalid_argument, "connect",
         "encryption is on (parallel.encrypt, LOCKSTEP_ENCRYPT), and backend \"{}\" cannot encrypt; leave the backend "
         "at auto, or choose {}",
         options.backend, is_for_cuda(options.backend) ? "staged" : "tcp");
  }
  if (options.timeout.count() <= 0 || options.start_timeout.count() <= 0) {
    fail(ErrorKind::invalid_argument, "connect", "timeouts must be positive; timeout is {} ms, start_timeout {} ms",
         options.timeout.count(), options.start_timeout.count());
  }
  // The kernel takes these times in whole seconds, and they are fractions of this timeout.
  if (options.host_timeout < std::chrono::seconds(3) || options.host_timeout > std::chrono::hours(24)) {
    fail(ErrorKind::invalid_argument, "connect",
         "host_timeout (LOCKSTEP_HOST_TIMEOUT_S) must be from 3 s to a day; it is {} ms", options.host_timeout.count());
  }
  return options;
}

}  // namespace lockstep::detail
