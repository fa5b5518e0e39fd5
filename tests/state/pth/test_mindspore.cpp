// Checkpoints of MindSpore, made after its format's description: what is read, and what is refused.
#include <lockstep/state/pth/archive.h>
#include <lockstep/state/pth/mindspore.h>

#include "state/pth/made_mindspore.h"
#include "state/pth/read_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

namespace lockstep::state {
namespace {

using test::bytes_field;
using test::mindspore_value;
using test::source_of;
using test::varint;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

const std::string kEight(8, '\1');

MindsporeFile read(std::string_view bytes) { return read_mindspore_file(source_of(bytes), PthError("m.ckpt")); }

std::string refused(std::string_view bytes) {
  try {
    read(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    EXPECT_EQ(error.position().file, "m.ckpt");
    return error.message();
  }
  return "it was read";
}

std::string content_of(std::string_view bytes, const MindsporeTensor& tensor) {
  std::string content;
  for (const auto& piece : tensor.pieces) content += bytes.substr(piece.begin, piece.bytes);
  return content;
}

TEST(Mindspore, TensorsOfEveryType) {
  std::string file;
  const std::vector<std::pair<std::string, std::string>> types = {
      {"Float32", "F32"}, {"Float16", "F16"}, {"Float64", "F64"}, {"BFloat16", "BF16"}, {"Int8", "I8"},
      {"Int16", "I16"},   {"Int32", "I32"},   {"Int64", "I64"},   {"UInt8", "U8"},      {"Bool", "BOOL"}};
  const auto bytes_of = [](const std::string& type) {
    const auto bits = type.find_first_of("1368");
    return type == "Bool" ? 1 : std::stoul(type.substr(bits)) / 8;
  };
  for (const auto& [theirs, ours] : types) {
    file += mindspore_value("net." + theirs, {2, 1}, theirs, std::string(2 * bytes_of(theirs), '\1'));
  }
  EXPECT_EQ(weights_format(file.substr(0, kFormatBytes)), WeightsFormat::mindspore);
  const auto found = read(file);
  ASSERT_EQ(found.tensors.size(), types.size());
  for (std::size_t i = 0; i < types.size(); ++i) {
    EXPECT_EQ(found.tensors[i].dtype, types[i].second);
    EXPECT_THAT(found.tensors[i].sizes, ElementsAre(2, 1));
    EXPECT_EQ(content_of(file, found.tensors[i]).size(), 2 * bytes_of(types[i].first));
  }
}

TEST(Mindspore, PiecesOfATensorAreOne) {
  const auto file = mindspore_value("a", {4}, "Int8", "ab") + mindspore_value("a", {4}, "Int8", "cd") +
                    mindspore_value("b", {}, "Float32", "1234") + mindspore_value("c", {0}, "Float32", "1234") +
                    mindspore_value("d.__param_key__7", {0, 3}, "Float32", "");
  const auto found = read(file);
  ASSERT_EQ(found.tensors.size(), 4U);
  EXPECT_EQ(content_of(file, found.tensors[0]), "abcd");
  EXPECT_THAT(found.tensors[1].sizes, IsEmpty());
  EXPECT_THAT(found.tensors[2].sizes, IsEmpty()) << "old files give a plain number the size 0";
  EXPECT_EQ(found.tensors[3].name, "d");
  const auto packed = bytes_field(
      1, bytes_field(1, "p") + bytes_field(2, bytes_field(1, varint(2) + varint(300)) + bytes_field(2, "Int8") +
                                                  bytes_field(3, std::string(600, 'x'))));
  EXPECT_THAT(read(packed).tensors.at(0).sizes, ElementsAre(2, 300));
}

TEST(Mindspore, WhatIsNoTensorIsListed) {
  const auto map = bytes_field(1, bytes_field(1, "map") + bytes_field(3, "keys"));
  const auto file = mindspore_value("text", {0}, "str", "a\0\0\0") +
                    mindspore_value("random_op", {}, "random_op", "x") + map + map +
                    mindspore_value("complex", {1}, "Complex64", kEight) + mindspore_value("odd", {1}, "QINT4X2", "x") +
                    mindspore_value("w", {2}, "Float32", kEight);
  const auto found = read(file);
  ASSERT_EQ(found.tensors.size(), 1U);
  EXPECT_THAT(found.others,
              ElementsAre(Pair("complex", "a tensor of type Complex64"), Pair("map", "a table of a map parameter"),
                          Pair("odd", "a tensor of type QINT4X2"), Pair("random_op", "the state of a random generator"),
                          Pair("text", "a text")));
}

TEST(Mindspore, ItsChecksumIsCompared) {
  const auto file = mindspore_value("w", {2}, "Float32", kEight);
  const auto crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(file.data()), file.size());
  std::string end = "crc_num";
  for (int shift = 72; shift >= 0; shift -= 8) end += shift > 56 ? '\0' : static_cast<char>(crc >> shift);
  EXPECT_EQ(read(file + end).tensors.size(), 1U);
  auto damaged = file + end;
  damaged[file.size() - 1] = '\2';
  EXPECT_THAT(refused(damaged), HasSubstr("checksum does not fit"));
}

TEST(Mindspore, WhatBreaksTheFormatIsRefused) {
  const auto whole = mindspore_value("w", {2}, "Float32", kEight);
  for (std::size_t length = 1; length < whole.size(); ++length) {
    EXPECT_NE(refused(whole.substr(0, length)), "it was read") << length;
  }
  EXPECT_THAT(refused(whole + whole), HasSubstr("16 bytes in the file"));
  const auto other = mindspore_value("v", {2}, "Float32", kEight);
  EXPECT_THAT(refused(whole + other + whole), HasSubstr("\"w\" is there twice"));
  EXPECT_THAT(refused(mindspore_value("w", {3}, "Float32", kEight)), HasSubstr("8 bytes in the file, but"));
  EXPECT_THAT(refused(mindspore_value("w", {2}, "Float32", "1234") + mindspore_value("w", {1}, "Float32", "1234")),
              HasSubstr("different sizes"));
  EXPECT_THAT(refused(mindspore_value("w", {1ULL << 62U, 1ULL << 62U}, "Float32", "")), HasSubstr("64 bits"));
  EXPECT_THAT(refused(mindspore_value("w", {~0ULL}, "Float32", "")), HasSubstr("no number from 0"));
  EXPECT_THAT(refused(mindspore_value("w", std::vector<std::uint64_t>(17, 1), "Int8", "x")),
              HasSubstr("16 dimensions"));
  EXPECT_THAT(refused(mindspore_value("\x1b[2J", {1}, "Int8", "x")), HasSubstr("control characters"));
  EXPECT_THAT(refused(bytes_field(1, "")), HasSubstr("no name"));
  EXPECT_THAT(refused(bytes_field(2, "x")), HasSubstr("no checkpoint of MindSpore"));
  EXPECT_THAT(refused("\x0b"), HasSubstr("unknown kind"));
  EXPECT_THAT(refused(std::string("\xd8\x5e\x3a\x7f", 4) + whole), HasSubstr("encrypted"));
}

}  // namespace
}  // namespace lockstep::state
