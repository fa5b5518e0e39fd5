#include <lockstep/base/error.h>
#include <lockstep/cluster/runnable.h>

#include <unistd.h>

namespace lockstep::cluster {

std::vector<std::string> runnable(std::vector<std::string> command, const Environment& environment) {
  if (command.empty()) fail(ErrorKind::invalid_argument, "launch", "no program to run");
  const std::string& program = command.front();
  const bool script = program.ends_with(".py") && ::access(program.c_str(), R_OK) == 0;
  if (script && ::access(program.c_str(), X_OK) != 0) {
    command.insert(command.begin(), find(environment, "PYTHON_EXEC").value_or("python3"));
  }
  return command;
}

}  // namespace lockstep::cluster
