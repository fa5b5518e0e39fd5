// Whatever bytes are taken for a picture, decoding throws an Error or gives a picture of the size that it says.
#include <lockstep/base/error.h>
#include <lockstep/data/pictures.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::data;
  try {
    const DecodeOptions options{.channels = size % 2 == 0 ? 3 : 1, .max_pixels = 1'000'000};
    const auto picture = decode_picture({data, size}, options, "picture");
    const auto pixels = static_cast<std::size_t>(picture.height) * static_cast<std::size_t>(picture.width);
    if (pixels == 0 || pixels > 1'000'000) std::abort();
    if (picture.pixels.size() != pixels * static_cast<std::size_t>(picture.channels)) std::abort();
  } catch (const lockstep::Error&) {
  }
  return 0;
}
