// The name and the identity of this machine, and the CPUs of it that this process may use.
#pragma once

#include <optional>
#include <string>

namespace lockstep {

/// The host name of the kernel; nullopt, with errno set, when it cannot be read.
std::optional<std::string> host_name();

/// The kernel's boot id: equal for all processes of the machine, in all containers, and different after a restart.
/// Empty when unknown.
std::string boot_id();

/// The identity of the namespace that a file such as /proc/self/ns/net represents: the inode of that file; nullopt when
/// there is no such file.
std::optional<std::string> namespace_id(const char* file);

/// LOCKSTEP_HOST_ID; empty where it is not set.
std::string given_host_identity();

/// The identity of processes that can share memory: that of the machine (its boot id) and of the network and user
/// namespaces of this process; LOCKSTEP_HOST_ID where it is set. Memory files are sent to the other ranks over a local
/// socket whose name belongs to the network namespace, and whose ends must be of one user; containers that differ only
/// in their IPC, mount or PID namespaces can share memory.
std::string host_identity();

/// The CPUs in this process's affinity mask; 1 when that cannot be read.
int usable_cpus();

}  // namespace lockstep
