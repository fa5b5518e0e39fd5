// Whatever bytes are taken for a file of tokens or a line of JSON, tokens are within their vocabulary, or there is an
// Error.
#include <lockstep/base/error.h>
#include <lockstep/data/files/picture_formats.h>
#include <lockstep/data/files/token_file.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace {

constexpr std::int64_t kVocabulary = 70'000;

void check_tokens(const std::vector<std::int64_t>& tokens) {
  for (const auto token : tokens) {
    if (token < 0 || token >= kVocabulary) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::data;
  const std::span<const std::uint8_t> bytes(data, size);
  for (const auto* kind : {"bytes", "uint16", "uint32"}) {
    try {
      const TokenView tokens(bytes, kind, kVocabulary, "tokens.bin");
      std::vector<std::int64_t> all(static_cast<std::size_t>(tokens.size()));
      tokens.copy(0, all);
      check_tokens(all);
      tokens.copy(1, all);  // one more than there are
      if (!all.empty()) std::abort();
    } catch (const lockstep::Error&) {
    }
  }
  try {
    const auto tokens = json_tokens({reinterpret_cast<const char*>(data), size}, "text");
    require_below(tokens, kVocabulary);
    check_tokens(tokens);
  } catch (const lockstep::Error&) {
  }
  const int orientation = exif_orientation(bytes);
  if (orientation < 1 || orientation > 8) std::abort();
  if (const int turned = jpeg_orientation(bytes); turned < 1 || turned > 8) std::abort();
  return 0;
}
