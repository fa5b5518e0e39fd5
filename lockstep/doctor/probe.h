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

/// Fills in what the machine and the environment say: interfaces, proxies, container, memory, limits, CPUs. `root` is
/// where the file system begins; tests pass another.
void probe_machine(Facts& facts, const Environment& environment, const std::filesystem::path& root = "/");

/// Addresses of interfaces that are up, link-local ones left out.
std::vector<Interface> probe_interfaces();

/// Looks `name` up.
Name probe_name(const std::string& name, const WaitLimit& wait_limit);

/// Binds the port for a moment; says who listens there when that fails, as far as this user may know.
Port probe_port(std::uint16_t number);

/// SHA-256 of the file; empty when it cannot be read.
std::string probe_file(const std::filesystem::path& file);

/// The program of this process, as "this program", and those of its arguments ("x", "--y=x") that are files of up to
/// 64 MiB: SHA-256 of each.
std::map<std::string, std::string> probe_command_line();

/// http_proxy and its relatives that are set and not empty, with passwords replaced by "***".
std::map<std::string, std::string> find_proxies(const Environment& environment);

}  // namespace lockstep::doctor
