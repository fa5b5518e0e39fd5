// Tokens in a file: each byte one, or numbers of two or four bytes in little-endian order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::data {

/// A view of tokens over bytes that the caller owns. Thread-safe.
class TokenView {
 public:
  /// `kind`: bytes, uint16 or uint32. `vocabulary`: tokens must be below it; 0: any. Error(data) naming the file when
  /// the bytes are not a whole number of tokens.
  TokenView(std::span<const std::uint8_t> bytes, std::string_view kind, std::int64_t vocabulary, std::string file);

  std::int64_t size() const { return size_; }

  /// Copies the tokens from `first` on to `out`; all of them must lie within the file. Error(data) naming file and
  /// position for a token outside the vocabulary.
  void copy(std::int64_t first, std::span<std::int64_t> out) const;

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t width_;
  std::int64_t vocabulary_;
  std::int64_t size_;
  std::string file_;
};

}  // namespace lockstep::data
