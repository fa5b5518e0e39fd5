#include "memory.h"

#include <fstream>
#include <limits>
#include <string>

namespace lockstep::bench {
namespace {

/// The number of kB after `key:` in a file of /proc.
double kilobytes(const char* file, const std::string& key) {
  std::ifstream lines(file);
  std::string word;
  while (lines >> word) {
    double value = 0;
    if (word == key + ":" && lines >> value) return value;
    lines.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

}  // namespace

double peak_memory_mb() {
  const char* const status = "/proc/self/status";
  return (kilobytes(status, "VmHWM") - kilobytes(status, "RssShmem") +
          kilobytes("/proc/self/smaps_rollup", "Pss_Shmem")) /
         1024;
}

}  // namespace lockstep::bench
