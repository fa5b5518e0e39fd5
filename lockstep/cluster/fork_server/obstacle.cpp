#include <lockstep/base/error.h>
#include <lockstep/base/spawn.h>
#include <lockstep/cluster/fork_server/needed_libraries.h>
#include <lockstep/cluster/fork_server/obstacle.h>

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>

namespace lockstep::cluster {
namespace {

constexpr const char* kVariable = "LOCKSTEP_START_METHOD";

StartMethod method_of(const LaunchOptions& options) {
  if (options.start_method != StartMethod::automatic) return options.start_method;
  const std::string value = find(options.environment, kVariable).value_or("");
  if (value.empty()) return StartMethod::automatic;
  if (value == "spawn") return StartMethod::spawn;
  if (value == "fork" || value == "forkserver") return StartMethod::fork_server;
  fail(ErrorKind::environment, "launch",
       "{}='{}' must be forkserver (a program of Lockstep's is loaded once, and its ranks are forked) or spawn (each "
       "rank is started by itself)",
       kVariable, value);
}

/// Such a program is started by the kernel with other rights than its parent's, and told no secrets.
bool has_rights_of_its_own(const std::string& program) {
  struct stat info {};
  if (::stat(program.c_str(), &info) != 0) return true;
  return (info.st_mode & (S_ISUID | S_ISGID)) != 0 ||
         ::getxattr(program.c_str(), "security.capability", nullptr, 0) > 0;
}

std::optional<std::string> find_file(const std::string& name, const Environment& environment) {
  try {
    return detail::find_program(name, environment);
  } catch (const Error&) {
    return std::nullopt;  // whoever starts it says so
  }
}

}  // namespace

std::optional<std::string> obstacle_to_forking(const LaunchOptions& options) {
  if (method_of(options) == StartMethod::spawn) return "spawn was asked for";
  const auto command = command_of_rank(options.program, 0, options.environment);
  for (int rank = 1; rank < options.processes; ++rank) {
    if (command_of_rank(options.program, rank, options.environment) != command) return "the ranks' arguments differ";
  }
  const auto program = find_file(command.front(), options.environment);
  if (!program) return fmt::format("there is no program {}", command.front());
  if (!needed_libraries(*program).contains(LOCKSTEP_LIBRARY)) {
    return fmt::format("{} is not linked against {}", *program, LOCKSTEP_LIBRARY);
  }
  if (has_rights_of_its_own(*program)) return fmt::format("{} runs with rights of its own", *program);
  return std::nullopt;
}

}  // namespace lockstep::cluster
