// A view of little-endian tokens of 1, 2 or 4 bytes, which are decoded and compared with the vocabulary when copied.
#include <lockstep/base/error.h>
#include <lockstep/data/files/token_file.h>

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

}  // namespace lockstep::data
