// An encoder of protobuf's wire types: varint, fixed 32 and 64 bits, and bytes with a length.
#include <lockstep/train/viewers/protobuf.h>

#include <bit>
#include <limits>

namespace lockstep::train {
namespace {

static_assert(std::numeric_limits<float>::is_iec559 && std::numeric_limits<double>::is_iec559);

enum WireType : std::uint32_t { kVarint = 0, kEightBytes = 1, kLengthFirst = 2, kFourBytes = 5 };

template <typename Unsigned>
void append_little_endian(std::string& bytes, Unsigned value) {
  for (std::size_t i = 0; i < sizeof(value); ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
}

// Seven bits per byte, lowest first; the eighth bit marks that more bytes follow.
void append_varint(std::string& bytes, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7F) | 0x80);
  bytes += static_cast<char>(value);
}

void append_key(std::string& bytes, std::uint32_t field, WireType type) {
  append_varint(bytes, std::uint64_t{field} << 3 | type);
}

}  // namespace

void append_fixed32(std::string& bytes, std::uint32_t value) { append_little_endian(bytes, value); }

void append_fixed64(std::string& bytes, std::uint64_t value) { append_little_endian(bytes, value); }

ProtobufMessage& ProtobufMessage::integer(std::uint32_t field, std::int64_t value) {
  append_key(text_, field, kVarint);
  append_varint(text_, static_cast<std::uint64_t>(value));
  return *this;
}

ProtobufMessage& ProtobufMessage::number(std::uint32_t field, float value) {
  append_key(text_, field, kFourBytes);
  append_fixed32(text_, std::bit_cast<std::uint32_t>(value));
  return *this;
}

ProtobufMessage& ProtobufMessage::number(std::uint32_t field, double value) {
  append_key(text_, field, kEightBytes);
  append_fixed64(text_, std::bit_cast<std::uint64_t>(value));
  return *this;
}

ProtobufMessage& ProtobufMessage::bytes(std::uint32_t field, std::string_view value) {
  append_key(text_, field, kLengthFirst);
  append_varint(text_, value.size());
  text_ += value;
  return *this;
}

ProtobufMessage& ProtobufMessage::numbers(std::uint32_t field, std::span<const double> values) {
  append_key(text_, field, kLengthFirst);
  append_varint(text_, values.size() * sizeof(double));
  for (const double value : values) append_fixed64(text_, std::bit_cast<std::uint64_t>(value));
  return *this;
}

}  // namespace lockstep::train
