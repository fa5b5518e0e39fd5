#include "train/viewers/event_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "support/read_file.h"

namespace lockstep::test {
namespace {

// Division by the polynomial, bit by bit.
std::uint32_t slow_masked_crc(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82F63B78 : crc >> 1;
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8;
}

// Takes `count` bytes off the front of `text`, as a little-endian number.
std::uint64_t take_fixed(std::string_view& text, std::size_t count) {
  if (text.size() < count) throw std::out_of_range("the message ends within a number");
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value |= std::uint64_t{static_cast<unsigned char>(text[i])} << (8 * i);
  text.remove_prefix(count);
  return value;
}

std::uint64_t take_varint(std::string_view& text) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = take_fixed(text, 1);
    value |= (byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  throw std::out_of_range("a number has too many bytes");
}

}  // namespace

std::vector<std::string> read_records(const std::filesystem::path& file) {
  const auto content = read_file(file);
  std::string_view rest = content;
  std::vector<std::string> records;
  while (rest.size() >= 12) {
    const auto length_bytes = rest.substr(0, 8);
    const auto length = take_fixed(rest, 8);
    EXPECT_EQ(take_fixed(rest, 4), slow_masked_crc(length_bytes)) << "the length of record " << records.size();
    if (rest.size() < length + 4) break;
    const auto data = rest.substr(0, length);
    rest.remove_prefix(length);
    EXPECT_EQ(take_fixed(rest, 4), slow_masked_crc(data)) << "the data of record " << records.size();
    records.emplace_back(data);
  }
  return records;
}

std::vector<WireField> read_message(std::string_view message) {
  std::vector<WireField> fields;
  while (!message.empty()) {
    const auto key = take_varint(message);
    WireField field{.number = static_cast<std::uint32_t>(key >> 3)};
    switch (key & 7) {
      case 0: field.bits = take_varint(message); break;
      case 1: field.bits = take_fixed(message, 8); break;
      case 5: field.bits = take_fixed(message, 4); break;
      case 2: {
        const auto length = take_varint(message);
        field.bytes = message.substr(0, length);
        if (field.bytes.size() < length) throw std::out_of_range("the message ends within bytes");
        message.remove_prefix(length);
        break;
      }
      default: throw std::out_of_range("an unknown kind of field");
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

std::optional<WireField> field_of(std::string_view message, std::uint32_t number) {
  const auto fields = read_message(message);
  const auto found = std::ranges::find(fields, number, &WireField::number);
  return found == fields.end() ? std::nullopt : std::optional(*found);
}

std::vector<ScalarEvent> read_scalars(const std::filesystem::path& file) {
  std::vector<ScalarEvent> scalars;
  for (const auto& record : read_records(file)) {
    const auto summary = field_of(record, 5);
    if (!summary) continue;
    const auto value = field_of(summary->bytes, 1).value().bytes;
    const auto number = field_of(value, 2);
    if (!number) continue;
    scalars.push_back({.wall_time = std::bit_cast<double>(field_of(record, 1).value().bits),
                       .step = static_cast<std::int64_t>(field_of(record, 2).value().bits),
                       .tag = field_of(value, 1).value().bytes,
                       .value = std::bit_cast<float>(static_cast<std::uint32_t>(number->bits))});
  }
  return scalars;
}

std::vector<std::filesystem::path> event_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

}  // namespace lockstep::test
