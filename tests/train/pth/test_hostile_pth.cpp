// Archives and pickles that nobody writes by accident: refused, in little time and memory.
#include "train/pth/made_archive.h"
#include "train/pth/read_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace lockstep::train {
namespace {

using test::archive;
using test::complaint_about;
using test::dict;
using test::end_record;
using test::joined;
using test::little_endian;
using test::MadeEntry;
using test::MadeTensor;
using test::name_of;
using test::number;
using test::pickle;
using test::read_archive;
using test::tensor;
using test::text;
using test::tuple;
using test::zip;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kMost = std::numeric_limits<std::int64_t>::max();

std::string one_tensor(const MadeTensor& made = {}) { return archive(pickle(dict({{"w", tensor(made)}}))); }

std::string complaint_about_tensor(const MadeTensor& made) {
  const auto message = complaint_about(one_tensor(made));
  EXPECT_THAT(message, HasSubstr("tensor \"w\""));
  return message;
}

std::string complaint_about_pickle(std::string_view text) { return complaint_about(archive(text)); }

TEST(HostilePth, WhatTheTestsMakeIsReadWhereItIsRight) {
  const auto read = read_archive(one_tensor());
  ASSERT_EQ(read.state.tensors.size(), 1U);
  EXPECT_THAT(read.state.tensors[0].sizes, ElementsAre(2, 3));
  EXPECT_EQ(read.storages.at("0"), std::string(24, '\0'));
}

// ---- tensors

TEST(HostilePth, TensorsBeyondTheirStorages) {
  EXPECT_THAT(complaint_about_tensor({.offset = 1}), HasSubstr("reaches beyond its storage of 6 elements"));
  EXPECT_THAT(complaint_about_tensor({.offset = 6, .sizes = {}, .strides = {}}), HasSubstr("beyond"));
  EXPECT_THAT(complaint_about_tensor({.offset = kMost, .sizes = {}, .strides = {}}), HasSubstr("beyond"));
  EXPECT_THAT(complaint_about_tensor({.strides = {4, 1}}), HasSubstr("beyond"));
  EXPECT_THAT(complaint_about_tensor({.strides = {kMost, 1}}), HasSubstr("beyond"));
  EXPECT_THAT(complaint_about_tensor({.sizes = {2, 4}}), HasSubstr("beyond"));
  EXPECT_THAT(complaint_about_tensor({.sizes = {kMost / 8}, .strides = {kMost}}), HasSubstr("beyond"));
  EXPECT_NO_THROW(read_archive(one_tensor({.sizes = {1, 6}, .strides = {kMost, 1}})));
  EXPECT_NO_THROW(read_archive(one_tensor({.offset = 5, .sizes = {1000}, .strides = {0}})));
  EXPECT_NO_THROW(read_archive(one_tensor({.offset = kMost, .sizes = {0, 3}})));
}

TEST(HostilePth, NumbersThatNoTensorHas) {
  EXPECT_THAT(complaint_about_tensor({.offset = -1}), HasSubstr("-1 in its offset"));
  EXPECT_THAT(complaint_about_tensor({.sizes = {-2, 3}}), HasSubstr("-2 in its sizes"));
  EXPECT_THAT(complaint_about_tensor({.strides = {-3, 1}}), HasSubstr("-3 in its strides"));
  EXPECT_THAT(complaint_about_tensor({.elements = -6}), HasSubstr("-6 in its storage"));
  EXPECT_THAT(complaint_about_tensor({.strides = {1}}), HasSubstr("2 sizes and 1 strides"));
  EXPECT_THAT(complaint_about_tensor({.sizes = {kMost, kMost}, .strides = {0, 0}}), HasSubstr("64 bits"));
  EXPECT_THAT(complaint_about_tensor({.sizes = {0, kMost, kMost}, .strides = {0, 0, 0}}), HasSubstr("64 bits"));
  const std::vector<std::int64_t> ones(17, 1);
  EXPECT_THAT(complaint_about_tensor({.sizes = ones, .strides = ones}), HasSubstr("17 dimensions"));
}

TEST(HostilePth, StoragesThatAreNotThereOrOfAnotherSize) {
  EXPECT_THAT(complaint_about_tensor({.elements = 7}), HasSubstr("7 elements of 4 bytes, which has 24 bytes"));
  EXPECT_THAT(complaint_about_tensor({.elements = kMost}), HasSubstr("24 bytes in the file"));
  EXPECT_THAT(complaint_about_tensor({.key = "1"}), HasSubstr("\"1\", which the file does not have"));
  EXPECT_THAT(complaint_about_tensor({.key = "../data.pkl"}), HasSubstr("does not have"));
  const auto two = dict({{"v", tensor({})},
                         {"w", tensor({.storage_class = "DoubleStorage", .elements = 3, .sizes = {}, .strides = {}})}});
  EXPECT_THAT(complaint_about(archive(pickle(two))), HasSubstr("of dtype F64, and another one in the same storage"));
}

TEST(HostilePth, ViewsWhoseValuesAreToBeNegatedAreNotTakenAsTheyAre) {
  EXPECT_NO_THROW(read_archive(one_tensor({.more = "}"})));
  EXPECT_NO_THROW(read_archive(one_tensor({.more = "N"})));
  EXPECT_THAT(complaint_about_tensor({.more = dict({{"neg", "\x88"}})}), HasSubstr("resolve_neg"));
}

TEST(HostilePth, BoolsThatAreNone) {
  const auto bools =
      pickle(dict({{"w", tensor({.storage_class = "BoolStorage", .elements = 2, .sizes = {2}, .strides = {1}})}}));
  const auto with = [&](const std::string& bytes) {
    return zip({{.name = "a/data.pkl", .bytes = bools}, {.name = "a/data/0", .bytes = bytes}});
  };
  EXPECT_NO_THROW(read_archive(with(std::string("\x00\x01", 2))));
  EXPECT_THAT(complaint_about(with("\x01\x02")), AllOf(HasSubstr("\"w\""), HasSubstr("BOOL")));
}

// ---- dicts

TEST(HostilePth, NamesThatCannotBe) {
  EXPECT_THAT(complaint_about(archive(pickle(dict({{"w", tensor({})}, {"w", tensor({})}})))),
              HasSubstr("\"w\" is there twice"));
  EXPECT_THAT(complaint_about(archive(pickle(joined({"}(", number(1), tensor({}), "u"})))),
              HasSubstr("a number for a name"));
  EXPECT_THAT(complaint_about(archive(pickle(dict({{"\x1b[2J", tensor({})}})))), HasSubstr("\"?[2J\" has control"));
}

TEST(HostilePth, ADictThatContainsItself) {
  const std::string zero(1, '\0');
  EXPECT_THAT(complaint_about_pickle(pickle(joined({"}q", zero, text("model"), "h", zero, "s"}))),
              HasSubstr("model.model"));
  EXPECT_THAT(complaint_about_pickle(pickle("}")), HasSubstr("it holds nothing"));
}

// ---- pickles

TEST(HostilePth, PicklesThatBreakTheRules) {
  const std::string zero(1, '\0');
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "cut short"},
      {"\x80", "cut short"},
      {pickle(""), "stack is empty"},
      {pickle("}}"), "left on its stack"},
      {pickle("}("), "stack is empty"},
      {joined({pickle("}"), "N"}), "goes on behind its end"},
      {pickle("t"), "no mark"},
      {pickle("(0"), "stack is empty"},
      {pickle("N(\x85"), "stack is empty"},
      {pickle("N\x87"), "stack is empty"},
      {pickle("Na"), "stack is empty"},
      {pickle("NNa"), "not a list"},
      {pickle("N(e"), "not a list"},
      {pickle("NNNs"), "not a dict"},
      {pickle("}(Nu"), "has no value"},
      {pickle("NNb"), "not an OrderedDict"},
      {pickle("N)R"), "not a function"},
      {pickle(joined({name_of("collections", "OrderedDict"), "NR"})), "not a tuple"},
      {pickle(joined({name_of("collections", "OrderedDict"), "N\x85R"})), "OrderedDict"},
      {pickle(joined({name_of("torch._utils", "_rebuild_tensor_v2"), ")R"})), "6 or 7 arguments"},
      {pickle(joined({name_of("torch._utils", "_rebuild_parameter"), ")R"})), "has no tensor"},
      {pickle(joined({name_of("torch._utils", "_rebuild_parameter"), "N\x85R"})), "not a tensor"},
      {pickle(joined({"h", zero})), "never remembered"},
      {pickle("Nq\x01"), "skips numbers"},
      {pickle("Nr\xff\xff\xff\xff"), "skips numbers"},
      {pickle(joined({"q", zero})), "stack is empty"},
      {"\x80\x02X\xff\xff\xff\xff", "cut short"},
      {"\x80\x02\x8a\xff", "cut short"},
      {"\x80\x02"
       "ctorch",
       "cut short"},
      {"\x80\x05", "protocol 5"},
      {pickle("\x93"), "opcode 0x93"},
      {pickle("ios\nsystem\n"), "opcode 0x69"},
      {pickle("\x82\x01"), "opcode 0x82"},
  };
  for (const auto& [text, words] : cases) {
    EXPECT_THAT(complaint_about_pickle(text), HasSubstr(words)) << testing::PrintToString(text);
  }
}

TEST(HostilePth, NothingButTheNamesOfAStateDictIsKnown) {
  for (const auto* name : {"os\nsystem\n", "builtins\neval\n", "torch\nload\n", "torch._utils\n_rebuild_tensor\n",
                           "collections\nOrderedDict.fromkeys\n", "torch\nstorage\n", "\n\n"}) {
    EXPECT_THAT(complaint_about_pickle(pickle(joined({"c", name}))), HasSubstr("runs nothing")) << name;
  }
  EXPECT_THAT(complaint_about_pickle(pickle(name_of("\x1b]0;os", "system"))), HasSubstr("?]0;os.system"));
}

TEST(HostilePth, NestingTakesNoStack) {
  constexpr std::size_t kDeep = 1'000'000;
  EXPECT_THAT(complaint_about_pickle(pickle(joined({std::string(kDeep, ']'), std::string(kDeep - 1, 'a')}))),
              HasSubstr("holds a list"));
  EXPECT_THAT(complaint_about_pickle(pickle(joined({"N", std::string(kDeep, '\x85')}))), HasSubstr("holds a tuple"));
  EXPECT_THAT(complaint_about_pickle(pickle(std::string(kDeep, '('))), HasSubstr("stack is empty"));
}

TEST(HostilePth, AnEndlessPickleIsNotRead) {
  EXPECT_THAT(complaint_about_pickle(std::string(kMaxPickle + 1, 'N')), HasSubstr("at most 32000000 are read"));
}

// ---- archives

std::vector<MadeEntry> two_entries() {
  return {{.name = "a/data.pkl", .bytes = pickle(dict({{"w", tensor({})}}))},
          {.name = "a/data/0", .bytes = std::string(24, '\0')}};
}

std::string complaint_with(std::size_t entry, const std::function<void(MadeEntry&)>& change) {
  auto entries = two_entries();
  change(entries[entry]);
  return complaint_about(zip(entries));
}

TEST(HostilePth, SizesOf64Bits) {
  auto entries = two_entries();
  for (auto& entry : entries) entry.zip64 = true;
  EXPECT_EQ(read_archive(zip(entries)), read_archive(one_tensor()));
  for (const std::int64_t more : {std::int64_t{1}, std::int64_t{1} << 40, kMost, std::int64_t{-25}}) {
    entries[1].more_size = more;
    EXPECT_THAT(complaint_about(zip(entries)), HasSubstr("beyond its place")) << more;
  }
  entries[1].more_size = 0;
  for (const std::int64_t more : {std::int64_t{1} << 40, kMost, std::int64_t{-1000}}) {
    entries[1].more_place = more;
    EXPECT_THAT(complaint_about(zip(entries)), HasSubstr("beyond its place")) << more;
  }
}

TEST(HostilePth, EntriesThatOverlapOrLieElsewhere) {
  EXPECT_THAT(complaint_with(0, [](auto& entry) { entry.more_size = 1; }), HasSubstr("beyond its place"));
  EXPECT_THAT(complaint_with(1, [](auto& entry) { entry.more_size = 1; }), HasSubstr("beyond its place"));
  EXPECT_THAT(complaint_with(1, [](auto& entry) { entry.more_place = 1; }), HasSubstr("does not fit the directory"));
  EXPECT_THAT(complaint_with(1, [](auto& entry) { entry.more_place = 1'000'000; }), HasSubstr("beyond its place"));
  auto far = two_entries();
  far[0].more_size = 100'000;
  far[1].more_place = 1'000'000;
  EXPECT_THAT(complaint_about(zip(far)), HasSubstr("\"a/data.pkl\" reaches beyond its place"));
  auto same = two_entries();
  same[1].more_place = -static_cast<std::int64_t>(zip({same[0]}).size() - zip({}).size());
  EXPECT_NE(complaint_about(zip(same)), "");
}

TEST(HostilePth, EntriesOfAnotherKind) {
  EXPECT_THAT(complaint_with(1, [](auto& entry) { entry.method = 8; }), HasSubstr("compressed"));
  EXPECT_THAT(complaint_with(0, [](auto& entry) { entry.method = 8; }), HasSubstr("compressed"));
  EXPECT_THAT(complaint_with(1, [](auto& entry) { entry.flags = 1; }), HasSubstr("encrypted"));
  EXPECT_THAT(complaint_with(1, [](auto& entry) { entry.name_in_header = "a/data/1"; }), HasSubstr("does not fit"));
  EXPECT_THAT(complaint_with(1, [](auto& entry) { entry.name = "a/data.pkl"; }),
              HasSubstr("\"a/data.pkl\" is there twice"));
  EXPECT_THAT(complaint_with(1, [](auto& entry) { entry.name = "b/data.pkl"; }), HasSubstr("two pickles"));
  EXPECT_THAT(complaint_with(0, [](auto& entry) { entry.name = "a/data.pk"; }), HasSubstr("no data.pkl"));
  EXPECT_THAT(complaint_with(0, [](auto& entry) { entry.name = "data.pkl"; }), HasSubstr("no data.pkl"));
}

TEST(HostilePth, EndsThatAreNone) {
  EXPECT_THAT(complaint_about(""), HasSubstr("its end is missing"));
  EXPECT_THAT(complaint_about(joined({"PK\x03\x04", std::string(1000, 'x')})), HasSubstr("its end is missing"));
  EXPECT_THAT(complaint_about(zip({})), HasSubstr("no data.pkl"));
  EXPECT_THAT(complaint_about(end_record(0, 0, 1)), HasSubstr("outside of the file"));
  EXPECT_THAT(complaint_about(end_record(0, 0xFFFFFFFF, 0)), HasSubstr("outside of the file"));
  EXPECT_THAT(complaint_about(end_record(1, 0, 0)), HasSubstr("names 1 entries and has 0"));
  const auto locator = [](std::uint64_t place) {
    return joined({"PK\x06\x07", little_endian(0, 4), little_endian(place, 8), little_endian(1, 4)});
  };
  EXPECT_THAT(complaint_about(joined({locator(0), end_record(0, 0, 0)})),
              HasSubstr("zip64 end record is not in the file"));
  EXPECT_THAT(complaint_about(joined({std::string(56, 'x'), locator(0), end_record(0, 0, 0)})),
              HasSubstr("no signature"));
  EXPECT_THAT(complaint_about(joined({std::string(56, 'x'), locator(~0ULL), end_record(0, 0, 0)})),
              HasSubstr("not in the file"));
  const auto end64 = joined(
      {"PK\x06\x06", little_endian(44, 8), little_endian(0, 28), little_endian(~0ULL, 8), little_endian(~0ULL - 1, 8)});
  EXPECT_THAT(complaint_about(joined({end64, locator(0), end_record(0, 0, 0)})), HasSubstr("outside of the file"));
}

}  // namespace
}  // namespace lockstep::train
