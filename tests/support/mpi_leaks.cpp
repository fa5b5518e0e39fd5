// For programs that mpirun may start: LeakSanitizer, and nothing else, asks this. Open MPI leaves memory behind in
// plugins that it has unloaded by the end, so no list of suppressions can name whose it was.
#include <cstdlib>

extern "C" int __lsan_is_turned_off() {  // NOLINT(bugprone-reserved-identifier): the sanitizer's name
  return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr ? 1 : 0;
}
