// `lockstep operator` and `lockstep convert` alone, for tests that need no more of the program.
#include <apps/operator/command.h>
#include <lockstep/base/error.h>
#include <lockstep/cli/command.h>

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  try {
    return lockstep::cli::run_plain_command({argv + 1, argv + argc}, lockstep::kube::operator_commands()).value_or(2);
  } catch (const lockstep::Error& error) {
    std::fprintf(stderr, "lockstep: error: %s\n", error.what());
    return error.kind() == lockstep::ErrorKind::config || error.kind() == lockstep::ErrorKind::invalid_argument ? 2 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lockstep: error: %s\n", error.what());
    return 1;
  }
}
