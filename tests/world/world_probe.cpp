// Prints what a process concludes about how it was started; run by test_launchers under real launchers.
#include <lockstep/world/world.h>

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  try {
    const lockstep::World world = lockstep::detect_world(argc > 1 ? argv[1] : "auto");
    // One write, so that the lines of several ranks do not mix.
    const std::string line = lockstep::describe(world) + "\n";
    std::fwrite(line.data(), 1, line.size(), stdout);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
