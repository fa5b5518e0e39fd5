// A container as a local process: what it runs, and what of the machine it sees.
#pragma once

#include <lockstep/base/environment.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::test {

/// A file or folder of this machine, and where the container sees it.
struct Mount {
  std::string from;
  std::string to;
};

struct Sandbox {
  std::string host_name;
  std::string hosts;       ///< the file that is its /etc/hosts
  std::string last_words;  ///< the file that is its /dev/termination-log
  std::string log;         ///< its output is appended there
  std::string folder;      ///< its working directory; empty: /
  std::vector<Mount> mounts{};
  std::vector<std::string> arguments{};
  Environment environment{};
};

nlohmann::json to_json(const Sandbox& sandbox);
Sandbox sandbox_of(const nlohmann::json& text);

/// Turns this process, which must have one thread, into the container: user, mount and host name namespaces of its own,
/// on a root folder that has this machine's files and the sandbox's above them; then executes the program. `root`: an
/// empty folder. Returns only by Error(io), with what could not be done.
[[noreturn]] void enter(const Sandbox& sandbox, const std::filesystem::path& root);

/// Why containers cannot be made here; empty: they can.
std::string sandbox_obstacle();

}  // namespace lockstep::test
