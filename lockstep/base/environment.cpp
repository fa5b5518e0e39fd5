// Environment variables as a map, and strict readings of them.
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>

#include <unistd.h>

#include <atomic>
#include <memory>

namespace lockstep {
namespace {

// Kubernetes gives each container, for each Service of its namespace, variables in the format of Docker's links:
// REDIS_MASTER_PORT=tcp://10.0.0.11:6379. A Service named "master" produces a MASTER_PORT in this way. The user did not
// set it: it counts as unset.
bool is_of_service(std::string_view name, std::string_view value) {
  if (!name.ends_with("_PORT")) return false;
  return value.starts_with("tcp://") || value.starts_with("udp://") || value.starts_with("sctp://");
}

Environment read_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    // If a name occurs twice, the first value is kept, as in getenv and most shells.
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

/// What keep_environment() has copied; null before. Never destroyed: threads may read it while the process exits.
std::atomic<std::shared_ptr<const Environment>>& kept() {
  static auto& copy = *new std::atomic<std::shared_ptr<const Environment>>;
  return copy;
}

}  // namespace

Environment current_environment() {
  const auto copy = kept().load();
  return copy ? *copy : read_environment();
}

void keep_environment() { kept().store(std::make_shared<const Environment>(read_environment())); }

std::optional<std::string> find(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  if (found == environment.end() || is_of_service(name, found->second)) return std::nullopt;
  return found->second;
}

std::optional<std::int64_t> find_integer(const Environment& environment, std::string_view name, std::int64_t low,
                                         std::int64_t high) {
  const auto text = find(environment, name);
  if (!text) return std::nullopt;
  const auto value = parse_integer(*text);
  if (!value) {
    fail(ErrorKind::environment, "environment", "{}='{}' is not an integer; set it to one from {} to {}, or unset it",
         name, cut_text(*text), low, high);
  }
  if (*value < low || *value > high) {
    fail(ErrorKind::environment, "environment", "{}={} is out of range; it must be from {} to {}", name, *value, low,
         high);
  }
  return value;
}

}  // namespace lockstep
