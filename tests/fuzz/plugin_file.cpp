// Random bytes as a shared library that a configuration names: it is examined before it is loaded.
#include <lockstep/base/error.h>
#include <lockstep/train/plugins/shared_library.h>

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    lockstep::train::require_shared_library({reinterpret_cast<const char*>(data), size});
  } catch (const lockstep::Error&) {
    // what a file deserves that is none
  }
  return 0;
}
