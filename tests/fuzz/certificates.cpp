// Whatever bytes are taken for a .p12 file, a certificate or a revocation list. The first byte chooses.
#include <lockstep/base/error.h>
#include <lockstep/net/certificates/certificates.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::net;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0] % 3) {
      case 0: read_p12(bytes, "123456"); break;
      case 1:
        for (const auto& one : read_certificates(bytes)) {
          subject_of(*one);
          time_left(*one);
        }
        break;
      default: read_revocation_lists(bytes); break;
    }
  } catch (const lockstep::Error&) {
  }
  return 0;
}
