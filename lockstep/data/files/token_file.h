// Tokens in a file, each byte one, or numbers of two or four bytes in little-endian order; and tokens of a document,
// from its bytes or from a line of JSON.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

std::vector<std::int64_t> byte_tokens(std::string_view text);

/// The document under `key` of a JSON object: a text, each byte of which is a token, or a list of whole numbers from 0
/// on. Error(data) for anything else.
std::vector<std::int64_t> json_tokens(std::string_view line, std::string_view key);

/// Error(data) naming the first token that is not below `vocabulary`.
void require_below(std::span<const std::int64_t> tokens, std::int64_t vocabulary);

}  // namespace lockstep::data
