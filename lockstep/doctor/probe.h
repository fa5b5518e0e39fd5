// Probes of this machine for the facts that need no other rank.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/doctor/facts.h>
#include <lockstep/doctor/wait_limit.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::doctor {

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
