// Random bytes as a shared library that a configuration names: it is examined before it is loaded.
#include <lockstep/base/error.h>
#include <lockstep/train/plugins/elf_file.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int file = memfd_create("plugin", 0);
  if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) return 0;
  try {
    lockstep::train::ElfFile elf("/proc/self/fd/" + std::to_string(file));
    elf.section(".lockstep_plugin");
    elf.exports("lockstep_plugin");
  } catch (const lockstep::Error&) {
    // what a file deserves that is none
  }
  return 0;
}
