// OpenSSL's Base64 without line breaks, and a comparison that makes its lenient decoder strict.
#include <lockstep/base/base64.h>

#include <openssl/evp.h>

#include <algorithm>

namespace lockstep {
namespace {

using Convert = int(unsigned char*, const unsigned char*, int);

/// Applies one of OpenSSL's functions, which count in int, to one part of `from` after the other. `into` has room for
/// all results, and is cut to them.
void convert_parts(Convert* convert, std::string_view from, std::size_t longest_part, std::string& into) {
  std::size_t size = 0;
  for (; !from.empty(); from.remove_prefix(std::min(from.size(), longest_part))) {
    const auto part = from.substr(0, longest_part);
    const int converted = convert(reinterpret_cast<unsigned char*>(into.data() + size),
                                  reinterpret_cast<const unsigned char*>(part.data()), static_cast<int>(part.size()));
    size += static_cast<std::size_t>(std::max(converted, 0));
  }
  into.resize(size);
}

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // with the zero that OpenSSL adds
  convert_parts(&::EVP_EncodeBlock, bytes, 3 << 20, text);
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  std::string bytes(text.size() / 4 * 3, '\0');
  convert_parts(&::EVP_DecodeBlock, text, 4 << 20, bytes);
  // OpenSSL writes zeros for the padding.
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  bytes.erase(bytes.size() - std::min(bytes.size(), padding));
  // It also accepts blanks around the text, and bits after the last byte.
  if (to_base64(bytes) != text) return std::nullopt;
  return bytes;
}

}  // namespace lockstep
