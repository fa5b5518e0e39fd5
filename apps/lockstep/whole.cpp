// The whole program `lockstep`, which is loaded with libtorch.
#include <apps/operator/command.h>
#include <lockstep/cli/entry.h>

int main(int argc, char** argv) {
  return lockstep::cli::run_whole_program(argc, argv, lockstep::kube::operator_commands());
}
