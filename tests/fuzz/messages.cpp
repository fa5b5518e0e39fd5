// Whatever bytes a peer sends, a reader of messages throws an Error or gives a message that survives being written.
#include <lockstep/base/error.h>
#include <lockstep/membership/messages.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

using namespace lockstep;
using namespace lockstep::membership;

template <typename Parse>
void read(std::string_view text, const Parse& parse) {
  try {
    const auto message = parse(text);
    if (parse(print(message)) == message) return;
    // Reasons are cut when they are written, and then they stay as they are.
    const auto cut = parse(print(message));
    if (!(parse(print(cut)) == cut)) std::abort();
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read(text, parse_from_worker);
  read(text, parse_from_scheduler);
  return 0;
}
