// Messages in protobuf's wire format, field by field.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::train {

/// Little-endian bytes.
void append_fixed32(std::string& bytes, std::uint32_t value);
void append_fixed64(std::string& bytes, std::uint64_t value);

/// The bytes of one message (protobuf.dev/programming-guides/encoding). Each call appends a field; the numbers of
/// fields are at least 1. Texts must be UTF-8, or readers refuse the message.
class ProtobufMessage {
 public:
  ProtobufMessage& integer(std::uint32_t field, std::int64_t value);  ///< int32, int64, enum
  ProtobufMessage& number(std::uint32_t field, float value);
  ProtobufMessage& number(std::uint32_t field, double value);
  ProtobufMessage& bytes(std::uint32_t field, std::string_view value);
  ProtobufMessage& message(std::uint32_t field, const ProtobufMessage& value) { return bytes(field, value.text()); }
  ProtobufMessage& numbers(std::uint32_t field, std::span<const double> values);  ///< repeated double, packed

  const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

}  // namespace lockstep::train
