// Whatever stands in a cluster's JSON file, reading it throws an Error or gives values within their ranges.
#include <lockstep/base/error.h>
#include <lockstep/net/certificates/tls_files.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto files = lockstep::net::parse_tls_files({reinterpret_cast<const char*>(data), size}, "config.json");
    if (files.warning_days < 7 || files.warning_days > 180 || files.connections < 1) std::abort();
  } catch (const lockstep::Error&) {
  }
  return 0;
}
