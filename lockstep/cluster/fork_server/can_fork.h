// Obstacles to the fork server: whether the ranks of a job may be forks of one process that has loaded their program.
#pragma once

#include <lockstep/cluster/launch.h>

#include <filesystem>
#include <optional>
#include <set>
#include <string>

namespace lockstep::cluster {

/// Why the ranks have to be started one by one, as far as that is known before the program is loaded; nullopt when they
/// may be forks. Error(environment) for an unknown LOCKSTEP_START_METHOD.
std::optional<std::string> obstacle_to_forking(const LaunchOptions& options);

/// Whether the ranks may need c10d's store: Python and shell scripts, programs without this library, and programs that
/// use the class c10d::TCPStore themselves.
bool may_need_c10d_store(const LaunchOptions& options);

/// The libraries that a program is linked against: the names in the program's own list (DT_NEEDED), without the
/// dependencies of these libraries. Empty for any file that is not a dynamically linked program for this kind of
/// machine: scripts, static programs, unreadable files.
std::set<std::string> needed_libraries(const std::filesystem::path& program);

}  // namespace lockstep::cluster
