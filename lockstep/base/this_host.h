// The name and the identity of this machine, and what of it a process has: its memory, its CPUs, and the terminal of
// its session.
#pragma once

#include <lockstep/base/environment.h>

#include <cstdint>
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

/// The resident memory of a process on this machine, in bytes; nullopt when it does not exist.
std::optional<std::uint64_t> resident_bytes(std::int64_t pid);

/// The CPUs in this process's affinity mask; 1 when that cannot be read.
int usable_cpus();

/// Whether `fd` is the terminal of this session and can redraw lines: TERM is set and not "dumb". False for a pseudo
/// terminal that another program reads: mpirun gives each rank one, even when its own output goes to a file.
bool is_terminal_of_session(int fd, const Environment& environment);

}  // namespace lockstep
