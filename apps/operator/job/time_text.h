// Times as Kubernetes writes them (RFC 3339, UTC).
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::kube {

using Seconds = std::chrono::sys_seconds;
using Time = std::chrono::system_clock::time_point;

/// "2026-03-01T12:00:00Z".
std::string time_text(Seconds time);
/// "2026-03-01T12:00:00.000000Z", the format of a Lease.
std::string micro_time_text(Time time);

/// Reads both formats; fractions of a second of any length are dropped. nullopt for other texts.
std::optional<Seconds> parse_time(std::string_view text);

}  // namespace lockstep::kube
