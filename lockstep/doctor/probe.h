// Probes of this machine for the facts that need no other rank, and the limit of a wait: a deadline, or a stop request.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/doctor/facts.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::doctor {

/// The limit of one wait, or of several that follow each other.
class WaitLimit {
 public:
  using Clock = std::chrono::steady_clock;

  explicit WaitLimit(std::chrono::milliseconds limit, std::stop_token stop = {})
      : deadline_(Clock::now() + limit), stop_(std::move(stop)) {}

  bool over() const { return stopped() || Clock::now() >= deadline_; }
  std::chrono::milliseconds left() const {
    if (stopped()) return std::chrono::milliseconds(0);
    return std::max(std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()),
                    std::chrono::milliseconds(0));
  }
  /// The time of a single wait, so that a stop request is handled soon: the remaining time, at most 50 ms.
  std::chrono::milliseconds slice() const { return std::min(left(), std::chrono::milliseconds(50)); }
  /// The same, but ending after `limit` at the latest.
  WaitLimit at_most(std::chrono::milliseconds limit) const { return WaitLimit(std::min(limit, left()), stop_); }
  bool stopped() const { return stop_.stop_requested(); }

 private:
  Clock::time_point deadline_;
  std::stop_token stop_;
};

/// Fills in the facts of the machine and the environment: interfaces, proxies, container, memory, limits, CPUs, and the
/// facts about GPUs that files contain. `root` is the root of the file system; tests pass another.
void probe_machine(Facts& facts, const Environment& environment, const std::filesystem::path& root = "/");

/// The addresses of interfaces that are up, without link-local ones.
std::vector<Interface> probe_interfaces();

/// Resolves `name`.
Name probe_name(const std::string& name, const WaitLimit& wait_limit);

/// Tests whether the port can be bound. If not, the result names the process that listens there, if this user may see
/// it.
Port probe_port(std::uint16_t number);

/// SHA-256 of the file; empty when it cannot be read.
std::string probe_file(const std::filesystem::path& file);

/// The SHA-256 of this process's program (key "this program"), and of those arguments ("x", "--y=x") that are files of
/// up to 64 MiB.
std::map<std::string, std::string> probe_command_line();

/// http_proxy and similar variables that are set and not empty, with passwords replaced by "***".
std::map<std::string, std::string> find_proxies(const Environment& environment);

}  // namespace lockstep::doctor
