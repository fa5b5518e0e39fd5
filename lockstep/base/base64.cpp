// A Base64 encoder and a strict decoder: three bytes against four digits, padding required, no blanks.
#include <lockstep/base/base64.h>

#include <algorithm>
#include <cstdint>

namespace lockstep {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Three bytes, missing ones as 0, in the low 24 bits.
std::uint32_t gather(std::string_view bytes) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    bits = bits << 8 | (i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0U);
  }
  return bits;
}

// Four digits, missing ones as 0, in the low 24 bits; nullopt when one of them is not a digit.
std::optional<std::uint32_t> gather_digits(std::string_view digits) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const auto value = i < digits.size() ? kDigits.find(digits[i]) : 0;
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
  }
  return bits;
}

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (; !bytes.empty(); bytes.remove_prefix(std::min<std::size_t>(3, bytes.size()))) {
    const auto bits = gather(bytes);
    for (std::size_t digit = 0; digit < 4; ++digit) {
      text += digit <= bytes.size() ? kDigits[bits >> (18 - 6 * digit) & 63] : '=';
    }
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string_view digits = text;
  for (int padding = 0; padding < 2 && digits.ends_with('='); ++padding) digits.remove_suffix(1);
  std::string bytes;
  bytes.reserve(digits.size() / 4 * 3 + 2);
  for (; !digits.empty(); digits.remove_prefix(std::min<std::size_t>(4, digits.size()))) {
    const auto bits = gather_digits(digits);
    if (!bits) return std::nullopt;
    for (std::size_t byte = 0; byte + 1 < std::min<std::size_t>(4, digits.size()); ++byte) {
      bytes += static_cast<char>(*bits >> (16 - 8 * byte) & 255);
    }
  }
  // Rejects text with nonzero padding bits after the last byte, which decoding would drop.
  if (to_base64(bytes) != text) return std::nullopt;
  return bytes;
}

}  // namespace lockstep
