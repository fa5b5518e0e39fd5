// The small program `lockstep`, which users call. No libtorch.
#include <apps/lockstep/app_commands.h>
#include <lockstep/cli/command.h>

int main(int argc, char** argv) { return lockstep::cli::run_small_program(argc, argv, lockstep::app_commands()); }
