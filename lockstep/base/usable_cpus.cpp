// The number of CPUs in the affinity mask of this process.
#include <lockstep/base/usable_cpus.h>

#include <sched.h>

namespace lockstep {

int usable_cpus() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  return sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
}

}  // namespace lockstep
