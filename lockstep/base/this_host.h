// The name and the identity of this machine.
#pragma once

#include <optional>
#include <string>

namespace lockstep {

/// As the kernel has it; nullopt, with errno set, when it cannot be read.
std::optional<std::string> host_name();

/// Of the machine since it was started: equal for all its processes, in whatever containers. Empty when unknown.
std::string boot_id();

/// Of the namespace that a file such as /proc/self/ns/net stands for: its inode, which is its identity; nullopt when
/// there is no such file.
std::optional<std::string> namespace_id(const char* file);

}  // namespace lockstep
