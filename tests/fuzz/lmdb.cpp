// Whatever bytes are taken for an LMDB file, a look-up throws an Error or gives a value within them; and whatever a
// value holds, decoding it as a picture throws an Error or gives a picture of the size that it says.
#include <lockstep/base/error.h>
#include <lockstep/data/files/lmdb.h>
#include <lockstep/data/pictures.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::data;
  const std::span<const std::uint8_t> bytes(data, size);
  const auto decode = [](std::span<const std::uint8_t> value) {
    try {
      const auto picture = decode_picture(value, {}, "value");
      const auto pixels = static_cast<std::size_t>(picture.height) * static_cast<std::size_t>(picture.width);
      if (picture.pixels.size() != pixels * static_cast<std::size_t>(picture.channels)) std::abort();
    } catch (const lockstep::Error&) {
    }
  };
  if (size < 4096) decode(bytes);
  try {
    const LmdbView view(bytes, "data.mdb");
    for (const auto* key : {"num-samples", "image-000000001", "label-000000001", "", "zzz"}) {
      try {
        const auto value = view.find(key);
        if (!value) continue;
        if (value->data() < data || value->data() + value->size() > data + size) std::abort();
        if (value->size() < 4096) decode(*value);
      } catch (const lockstep::Error&) {
      }
    }
  } catch (const lockstep::Error&) {
  }
  return 0;
}
