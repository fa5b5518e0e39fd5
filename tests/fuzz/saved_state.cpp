// Whatever stands in a scheduler's state file, reading it throws an Error or gives a membership that is read back the
// same.
#include <lockstep/base/error.h>
#include <lockstep/membership/service/state_writer.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::membership;
  const auto read = [](std::string_view text) {
    Membership membership;
    membership.wanted = 2;
    read_state(text, membership, Time());
    return print_state(membership);
  };
  try {
    const std::string text = read({reinterpret_cast<const char*>(data), size});
    if (read(text) != text) std::abort();
  } catch (const lockstep::Error&) {
  }
  return 0;
}
