// One rank of a run, for tests whose ranks another launcher starts: rank_program CONFIG.
#include <lockstep/base/config.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/run_group.h>

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  try {
    if (argc != 2) return 2;
    const auto config = lockstep::train::load_run_config(argv[1]);
    lockstep::train::run_training(config, lockstep::detect_world());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
