#include <lockstep/cli/command_line.h>

int main(int argc, char** argv) { return lockstep::cli::run_command_line(argc, argv); }
