// A view of little-endian tokens of 1, 2 or 4 bytes, which are decoded and compared with the vocabulary when copied.
// Tokens of a document are read with nlohmann::json.
#include <lockstep/base/error.h>
#include <lockstep/base/json.h>
#include <lockstep/data/files/token_file.h>

#include <nlohmann/json.hpp>

#include <utility>

namespace lockstep::data {
namespace {

std::size_t width_of(std::string_view kind) { return kind == "uint16" ? 2 : kind == "uint32" ? 4 : 1; }

}  // namespace

TokenView::TokenView(std::span<const std::uint8_t> bytes, std::string_view kind, std::int64_t vocabulary,
                     std::string file)
    : bytes_(bytes),
      width_(width_of(kind)),
      vocabulary_(vocabulary),
      size_(static_cast<std::int64_t>(bytes.size() / width_)),
      file_(std::move(file)) {
  if (bytes.size() % width_ == 0) return;
  fail(ErrorKind::data, "tokens", "{} has {} bytes, which is no multiple of the {} of a token ({})", file_,
       bytes.size(), width_, kind);
}

void TokenView::copy(std::int64_t first, std::span<std::int64_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  if (first < 0 || count > size_ || first > size_ - count) {
    fail(ErrorKind::invalid_argument, "tokens", "{} has {} tokens; {} from {} on are requested", file_, size_, count,
         first);
  }
  // Byte by byte: the same on every machine.
  const auto* byte = bytes_.data() + static_cast<std::size_t>(first) * width_;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t value = 0;
    for (std::size_t b = width_; b-- > 0;) value = value << 8 | byte[b];
    byte += width_;
    if (vocabulary_ > 0 && value >= vocabulary_) {
      fail(ErrorKind::data, "tokens",
           "token {} of {} (byte {}) is {}, and data.vocabulary is {}: tokens are from 0 to {}", first + i, file_,
           (first + i) * static_cast<std::int64_t>(width_), value, vocabulary_, vocabulary_ - 1);
    }
    out[static_cast<std::size_t>(i)] = value;
  }
}

std::vector<std::int64_t> byte_tokens(std::string_view text) {
  std::vector<std::int64_t> tokens;
  tokens.reserve(text.size());
  for (const char letter : text) tokens.push_back(static_cast<unsigned char>(letter));
  return tokens;
}

std::vector<std::int64_t> json_tokens(std::string_view line, std::string_view key) {
  try {
    const auto json = nlohmann::json::parse(line);
    const auto& document = json.at(std::string(key));
    if (document.is_string()) return byte_tokens(document.get_ref<const std::string&>());
    std::vector<std::int64_t> tokens;
    for (const auto& token : document.get_ref<const nlohmann::json::array_t&>()) {
      constexpr std::uint64_t kMost = 0xffffffff;
      if (!token.is_number_unsigned() || token.get<std::uint64_t>() > kMost) {
        fail(ErrorKind::data, "tokens", "token {} of '{}' is no whole number from 0 to {}", tokens.size(), key, kMost);
      }
      tokens.push_back(token.get<std::int64_t>());
    }
    return tokens;
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::data, "tokens", "the line should be a JSON object whose '{}' is a text or a list of tokens: {}",
         key, json_mistake(error));
  }
}

void require_below(std::span<const std::int64_t> tokens, std::int64_t vocabulary) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < vocabulary) continue;
    fail(ErrorKind::data, "tokens",
         "token {} of the document is {}, and data.vocabulary is {}: tokens are from 0 to {}", i, tokens[i], vocabulary,
         vocabulary - 1);
  }
}

}  // namespace lockstep::data
