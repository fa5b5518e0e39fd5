// Archives and pickles that nobody writes by accident: refused, in little time and memory.
#include "state/pth/made_archive.h"
#include "state/pth/read_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace lockstep::state {
namespace {

using test::archive;
using test::dict;
using test::end_record;
using test::error_about;
using test::joined;
using test::little_endian;
using test::MadeEntry;
using test::MadeTensor;
using test::name_of;
using test::number;
using test::pickle;
using test::read_archive;
using test::ReadArchive;
using test::tensor;
using test::text;
using test::tuple;
using test::zip;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kMost = std::numeric_limits<std::int64_t>::max();

std::string one_tensor(const MadeTensor& made = {}) { return archive(pickle(dict({{"w", tensor(made)}}))); }

std::string error_about_tensor(const MadeTensor& made) {
  const auto message = error_about(one_tensor(made));
  EXPECT_THAT(message, HasSubstr("tensor \"w\""));
  return message;
}

std::string error_about_pickle(std::string_view text) { return error_about(archive(text)); }

TEST(HostilePth, WhatTheTestsMakeIsReadWhereItIsRight) {
  const auto read = read_archive(one_tensor());
  ASSERT_EQ(read.state.tensors.size(), 1U);
  EXPECT_THAT(read.state.tensors[0].sizes, ElementsAre(2, 3));
  EXPECT_EQ(read.storages.at("0"), std::string(24, '\0'));
}

// ---- tensors

TEST(HostilePth, TensorsBeyondTheirStorages) {
  EXPECT_THAT(error_about_tensor({.offset = 1}), HasSubstr("reaches beyond its storage of 6 elements"));
  EXPECT_THAT(error_about_tensor({.offset = 6, .sizes = {}, .strides = {}}), HasSubstr("beyond"));
  EXPECT_THAT(error_about_tensor({.offset = kMost, .sizes = {}, .strides = {}}), HasSubstr("beyond"));
  EXPECT_THAT(error_about_tensor({.strides = {4, 1}}), HasSubstr("beyond"));
  EXPECT_THAT(error_about_tensor({.strides = {kMost, 1}}), HasSubstr("beyond"));
  EXPECT_THAT(error_about_tensor({.sizes = {2, 4}}), HasSubstr("beyond"));
  EXPECT_THAT(error_about_tensor({.sizes = {kMost / 8}, .strides = {kMost}}), HasSubstr("beyond"));
  EXPECT_NO_THROW(read_archive(one_tensor({.sizes = {1, 6}, .strides = {kMost, 1}})));
  EXPECT_NO_THROW(read_archive(one_tensor({.offset = 5, .sizes = {1000}, .strides = {0}})));
  EXPECT_NO_THROW(read_archive(one_tensor({.offset = kMost, .sizes = {0, 3}})));
}

TEST(HostilePth, NumbersThatNoTensorHas) {
  EXPECT_THAT(error_about_tensor({.offset = -1}), HasSubstr("-1 in its offset"));
  EXPECT_THAT(error_about_tensor({.sizes = {-2, 3}}), HasSubstr("-2 in its sizes"));
  EXPECT_THAT(error_about_tensor({.strides = {-3, 1}}), HasSubstr("-3 in its strides"));
  EXPECT_THAT(error_about_tensor({.elements = -6}), HasSubstr("-6 in its storage"));
  EXPECT_THAT(error_about_tensor({.strides = {1}}), HasSubstr("2 sizes and 1 strides"));
  EXPECT_THAT(error_about_tensor({.sizes = {kMost, kMost}, .strides = {0, 0}}), HasSubstr("64 bits"));
  EXPECT_THAT(error_about_tensor({.sizes = {0, kMost, kMost}, .strides = {0, 0, 0}}), HasSubstr("64 bits"));
  const std::vector<std::int64_t> ones(17, 1);
  EXPECT_THAT(error_about_tensor({.sizes = ones, .strides = ones}), HasSubstr("17 dimensions"));
}

TEST(HostilePth, StoragesThatAreNotThereOrOfAnotherSize) {
  EXPECT_THAT(error_about_tensor({.elements = 7}), HasSubstr("7 elements of 4 bytes, which has 24 bytes"));
  EXPECT_THAT(error_about_tensor({.elements = kMost}), HasSubstr("24 bytes in the file"));
  EXPECT_THAT(error_about_tensor({.key = "1"}), HasSubstr("\"1\", which the file does not have"));
  EXPECT_THAT(error_about_tensor({.key = "../data.pkl"}), HasSubstr("does not have"));
  const auto two = dict({{"v", tensor({})},
                         {"w", tensor({.storage_class = "DoubleStorage", .elements = 3, .sizes = {}, .strides = {}})}});
  EXPECT_EQ(read_archive(archive(pickle(two))).state.tensors.size(), 2U)
      << "views of one storage have their own dtypes";
}

TEST(HostilePth, ViewsWhoseValuesAreToBeNegatedAreNotTakenAsTheyAre) {
  EXPECT_NO_THROW(read_archive(one_tensor({.more = "}"})));
  EXPECT_NO_THROW(read_archive(one_tensor({.more = "N"})));
  const auto negated = read_archive(one_tensor({.more = dict({{"neg", "\x88"}})})).state;
  EXPECT_TRUE(negated.tensors.empty());
  EXPECT_THAT(negated.others.at("w"), HasSubstr("resolve_neg"));
}

TEST(HostilePth, BoolsThatAreNone) {
  const auto bools =
      pickle(dict({{"w", tensor({.storage_class = "BoolStorage", .elements = 2, .sizes = {2}, .strides = {1}})}}));
  const auto with = [&](const std::string& bytes) {
    return zip({{.name = "a/data.pkl", .bytes = bools}, {.name = "a/data/0", .bytes = bytes}});
  };
  EXPECT_NO_THROW(read_archive(with(std::string("\x00\x01", 2))));
  EXPECT_THAT(error_about(with("\x01\x02")), AllOf(HasSubstr("\"w\""), HasSubstr("BOOL")));
}

// ---- dicts

TEST(HostilePth, NamesThatCannotBe) {
  EXPECT_THAT(error_about(archive(pickle(dict({{"w", tensor({})}, {"w", tensor({})}})))),
              HasSubstr("\"w\" is there twice"));
  EXPECT_THAT(error_about(archive(pickle(joined({"}(", number(1), tensor({}), "u"})))),
              HasSubstr("a number for a name"));
  EXPECT_THAT(error_about(archive(pickle(dict({{"\x1b[2J", tensor({})}})))), HasSubstr(R"("\x1b[2J" has control)"));
}

TEST(HostilePth, ADictThatContainsItself) {
  const std::string zero(1, '\0');
  EXPECT_THAT(error_about_pickle(pickle(joined({"}q", zero, text("model"), "h", zero, "s"}))),
              HasSubstr("it holds \"model\" (a dict)"));
  EXPECT_THAT(error_about_pickle(pickle("}")), HasSubstr("it holds nothing"));
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
      {pickle("NNb"), "holds None"},
      {pickle("N)R"), "not a function"},
      {pickle(joined({name_of("collections", "OrderedDict"), "NR"})), "not a tuple"},
      {pickle(joined({name_of("collections", "OrderedDict"), "N\x85R"})), "not a dict of tensors"},
      {pickle(joined({name_of("torch._utils", "_rebuild_tensor_v2"), ")R"})), "not a dict of tensors"},
      {pickle(joined({name_of("torch._utils", "_rebuild_parameter"), ")R"})), "not a dict of tensors"},
      {pickle(joined({name_of("torch._utils", "_rebuild_parameter"), "N\x85R"})), "not a dict of tensors"},
      {pickle(joined({"h", zero})), "never stored"},
      {pickle("Nr\xff\xff\xff\xff"), "the number of a memo entry is too large"},
      {pickle(joined({"q", zero})), "stack is empty"},
      {"\x80\x02X\xff\xff\xff\xff", "cut short"},
      {"\x80\x02\x8a\xff", "cut short"},
      {"\x80\x02"
       "ctorch",
       "cut short"},
      {"\x80\x01", "protocol 1"},
      {"\x80\x06", "protocol 6"},
      {"}.", "no protocol number"},
      {pickle("\x93"), "stack is empty"},
      {pickle("NN\x93"), "not a text"},
      {pickle("\x97"), "opcode 0x97"},
      {pickle("N\x81"), "stack is empty"},
      {pickle("N)\x81"), "not a function"},
      {pickle("1"), "no mark"},
      {pickle("2"), "stack is empty"},
      {pickle("ios\nsystem\n"), "opcode 0x69"},
      {pickle("\x82\x01"), "opcode 0x82"},
  };
  for (const auto& [text, words] : cases) {
    EXPECT_THAT(error_about_pickle(text), HasSubstr(words)) << testing::PrintToString(text);
  }
}

TEST(HostilePth, WhatAFileAsksForIsNamedAndNotRun) {
  for (const auto* name : {"os\nsystem\n", "builtins\neval\n", "torch\nload\n", "torch._utils\n_rebuild_tensor\n",
                           "collections\nOrderedDict.fromkeys\n", "torch\nstorage\n", "\n\n"}) {
    EXPECT_THAT(error_about_pickle(pickle(joined({"c", name}))), HasSubstr("not a dict of tensors")) << name;
  }
  EXPECT_THAT(error_about_pickle(pickle(name_of("\x1b]0;os", "system"))), HasSubstr(R"(\x1b]0;os.system)"));
}

/// A dict of one tensor and one other value.
ReadArchive beside_a_tensor(std::string_view value, const std::string& protocol = "\x80\x02") {
  return read_archive(archive(joined({protocol, dict({{"w", tensor({})}, {"x", std::string(value)}}), "."})));
}

TEST(OpaquePth, AnythingMayBeBesideTheTensors) {
  const std::string state = dict({{"lr", number(1)}});
  const auto object = joined({name_of("argparse", "Namespace"), ")\x81", state, "b"});
  const std::vector<std::pair<std::string, std::string>> cases = {
      {object, "argparse.Namespace"},
      {joined({name_of("os", "system"), text("touch /tmp/lockstep-was-fooled"), "\x85R"}), "os.system"},
      {joined({text("posix"), text("system"), "\x93", text("true"), "\x85R"}), "posix.system"},
      {joined({name_of("a", "Class"), ")}\x92"}), "a.Class"},
      {joined({name_of("mmengine", "HistoryBuffer"), ")R", number(1), "a(", number(2), "e"}), "mmengine.HistoryBuffer"},
      {joined({name_of("a", "Dict"), ")R", text("k"), number(1), "s"}), "a.Dict"},
      {joined({name_of("builtins", "getattr"), "(", name_of("a", "Enum"), text("A"), "tR"}), "builtins.getattr"},
      {joined({name_of("a", "f"), ")R)R"}), "a.f"},
      {"C\x02xy", "bytes"},
      {"\x8f(K\x01K\x02\x90", "a list"},
      {"(K\x01\x91", "a list"},
      {"(K\x01K\x02"
       "1N",
       "None"},
      {joined({"\x8b", little_endian(9, 4), "123456789"}), "a number"},
      {joined({"\x95", little_endian(1, 8), "N"}), "None"},
      {joined({name_of("torch._utils", "_rebuild_qtensor"), ")R"}), "torch._utils._rebuild_qtensor"},
      {tensor({.storage_class = "ComplexFloatStorage", .elements = 3, .sizes = {3}, .strides = {1}}),
       "a tensor of dtype C64"},
  };
  for (const auto& [value, kind] : cases) {
    const auto read = beside_a_tensor(value);
    ASSERT_EQ(read.state.tensors.size(), 1U) << testing::PrintToString(value);
    EXPECT_EQ(read.state.others.at("x"), kind) << testing::PrintToString(value);
  }
  for (const auto* protocol : {"\x80\x03", "\x80\x04", "\x80\x05"}) {
    EXPECT_EQ(beside_a_tensor(object, protocol).state.others.at("x"), "argparse.Namespace");
  }
}

/// `function` of these arguments, each a part of a pickle.
std::string call(std::string_view module, std::string_view function,
                 std::initializer_list<std::string_view> arguments) {
  return joined({name_of(module, function), "(", joined(arguments), "tR"});
}

TEST(OpaquePth, TensorsOfEveryForm) {
  const auto untyped = joined(
      {"(", text("storage"), name_of("torch.storage", "UntypedStorage"), text("0"), text("cuda:0"), number(24), "tQ"});
  const auto v3 = [&](std::string_view dtype, std::int64_t offset, const std::vector<std::int64_t>& sizes) {
    return call("torch._utils", "_rebuild_tensor_v3",
                {untyped, number(offset), tuple(sizes), tuple({1}), "\x89", "}", name_of("torch", dtype)});
  };
  const auto typed =
      joined({"(", text("storage"), name_of("torch.cuda", "FloatStorage"), text("0"), text("cuda:0"), number(6), "tQ"});
  const auto read = read_archive(archive(pickle(dict({
      {"first", call("torch._utils", "_rebuild_tensor", {typed, number(1), tuple({2}), tuple({1})})},
      {"floats", v3("float32", 2, {3})},
      {"halves", v3("bfloat16", 11, {1})},
      {"small", v3("float8_e4m3fn", 0, {24})},
      {"parameter",
       call("torch._utils", "_rebuild_parameter_with_state", {tensor({}), "\x88", "}", dict({{"a", number(1)}})})},
      {"derived", call("torch._tensor", "_rebuild_from_type_v2",
                       {name_of("torch._utils", "_rebuild_tensor"), name_of("a", "Tensor"),
                        joined({"(", typed, number(0), tuple({6}), tuple({1}), "t"}), "}"})},
  }))));
  const auto dtype = [&](std::string_view name) {
    const auto found = std::ranges::find(read.state.tensors, name, &StoredTensor::name);
    return found == read.state.tensors.end() ? "none" : found->dtype;
  };
  for (const auto* name : {"first", "floats", "parameter", "derived"}) EXPECT_EQ(dtype(name), "F32") << name;
  EXPECT_EQ(dtype("halves"), "BF16");
  EXPECT_EQ(read.state.others.at("small"), "a tensor of dtype F8_E4M3");
  EXPECT_THAT(error_about(archive(pickle(dict({{"w", v3("float32", 4, {3})}})))),
              HasSubstr("beyond its storage of 6 elements"));
}

TEST(OpaquePth, DictsOfEveryKind) {
  const auto pairs = joined({"](", "(", text("w"), tensor({}), "te"});
  for (const auto& each :
       {call("collections", "OrderedDict", {pairs}),
        joined({call("collections", "defaultdict", {name_of("builtins", "list")}), text("w"), tensor({}), "s"}),
        joined({call("a", "StateDict", {}), text("w"), tensor({}), "s"})}) {
    EXPECT_EQ(read_archive(archive(pickle(each))).state.tensors.size(), 1U) << testing::PrintToString(each);
  }
}

TEST(HostilePth, NestingTakesNoStack) {
  constexpr std::size_t kDeep = 1'000'000;
  EXPECT_THAT(error_about_pickle(pickle(joined({std::string(kDeep, ']'), std::string(kDeep - 1, 'a')}))),
              HasSubstr("holds a list"));
  EXPECT_THAT(error_about_pickle(pickle(joined({"N", std::string(kDeep, '\x85')}))), HasSubstr("holds a tuple"));
  EXPECT_THAT(error_about_pickle(pickle(std::string(kDeep, '('))), HasSubstr("stack is empty"));
}

TEST(HostilePth, AnEndlessPickleIsNotRead) {
  EXPECT_THAT(error_about_pickle(std::string(kMaxPickle + 1, 'N')), HasSubstr("at most 32000000 are read"));
}

// ---- archives

std::vector<MadeEntry> two_entries() {
  return {{.name = "a/data.pkl", .bytes = pickle(dict({{"w", tensor({})}}))},
          {.name = "a/data/0", .bytes = std::string(24, '\0')}};
}

std::string error_with(std::size_t entry, const std::function<void(MadeEntry&)>& change) {
  auto entries = two_entries();
  change(entries[entry]);
  return error_about(zip(entries));
}

TEST(HostilePth, SizesOf64Bits) {
  auto entries = two_entries();
  for (auto& entry : entries) entry.zip64 = true;
  EXPECT_EQ(read_archive(zip(entries)), read_archive(one_tensor()));
  for (const std::int64_t more : {std::int64_t{1}, std::int64_t{1} << 40, kMost, std::int64_t{-25}}) {
    entries[1].more_size = more;
    EXPECT_THAT(error_about(zip(entries)), HasSubstr("beyond its place")) << more;
  }
  entries[1].more_size = 0;
  for (const std::int64_t more : {std::int64_t{1} << 40, kMost, std::int64_t{-1000}}) {
    entries[1].more_place = more;
    EXPECT_THAT(error_about(zip(entries)), HasSubstr("beyond its place")) << more;
  }
}

TEST(HostilePth, EntriesThatOverlapOrLieElsewhere) {
  EXPECT_THAT(error_with(0, [](auto& entry) { entry.more_size = 1; }), HasSubstr("beyond its place"));
  EXPECT_THAT(error_with(1, [](auto& entry) { entry.more_size = 1; }), HasSubstr("beyond its place"));
  EXPECT_THAT(error_with(1, [](auto& entry) { entry.more_place = 1; }), HasSubstr("does not fit the directory"));
  EXPECT_THAT(error_with(1, [](auto& entry) { entry.more_place = 1'000'000; }), HasSubstr("beyond its place"));
  auto far = two_entries();
  far[0].more_size = 100'000;
  far[1].more_place = 1'000'000;
  EXPECT_THAT(error_about(zip(far)), HasSubstr("\"a/data.pkl\" reaches beyond its place"));
  auto same = two_entries();
  same[1].more_place = -static_cast<std::int64_t>(zip({same[0]}).size() - zip({}).size());
  EXPECT_NE(error_about(zip(same)), "");
}

TEST(HostilePth, EntriesOfAnotherKind) {
  EXPECT_THAT(error_with(1, [](auto& entry) { entry.method = 8; }), HasSubstr("compressed"));
  EXPECT_THAT(error_with(0, [](auto& entry) { entry.method = 8; }), HasSubstr("compressed"));
  EXPECT_THAT(error_with(1, [](auto& entry) { entry.flags = 1; }), HasSubstr("encrypted"));
  EXPECT_THAT(error_with(1, [](auto& entry) { entry.name_in_header = "a/data/1"; }), HasSubstr("does not fit"));
  EXPECT_THAT(error_with(1, [](auto& entry) { entry.name = "a/data.pkl"; }),
              HasSubstr("\"a/data.pkl\" is there twice"));
  EXPECT_THAT(error_with(1, [](auto& entry) { entry.name = "b/data.pkl"; }), HasSubstr("two pickles"));
  EXPECT_THAT(error_with(0, [](auto& entry) { entry.name = "a/data.pk"; }), HasSubstr("no data.pkl"));
  EXPECT_THAT(error_with(0, [](auto& entry) { entry.name = "data.pkl"; }), HasSubstr("no data.pkl"));
}

TEST(HostilePth, EndsThatAreNone) {
  EXPECT_THAT(error_about(""), HasSubstr("its end is missing"));
  EXPECT_THAT(error_about(joined({"PK\x03\x04", std::string(1000, 'x')})), HasSubstr("its end is missing"));
  EXPECT_THAT(error_about(zip({})), HasSubstr("no data.pkl"));
  EXPECT_THAT(error_about(end_record(0, 0, 1)), HasSubstr("outside of the file"));
  EXPECT_THAT(error_about(end_record(0, 0xFFFFFFFF, 0)), HasSubstr("outside of the file"));
  EXPECT_THAT(error_about(end_record(1, 0, 0)), HasSubstr("names 1 entries and has 0"));
  const auto locator = [](std::uint64_t place) {
    return joined({"PK\x06\x07", little_endian(0, 4), little_endian(place, 8), little_endian(1, 4)});
  };
  EXPECT_THAT(error_about(joined({locator(0), end_record(0, 0, 0)})), HasSubstr("zip64 end record is not in the file"));
  EXPECT_THAT(error_about(joined({std::string(56, 'x'), locator(0), end_record(0, 0, 0)})), HasSubstr("no signature"));
  EXPECT_THAT(error_about(joined({std::string(56, 'x'), locator(~0ULL), end_record(0, 0, 0)})),
              HasSubstr("not in the file"));
  const auto end64 = joined(
      {"PK\x06\x06", little_endian(44, 8), little_endian(0, 28), little_endian(~0ULL, 8), little_endian(~0ULL - 1, 8)});
  EXPECT_THAT(error_about(joined({end64, locator(0), end_record(0, 0, 0)})), HasSubstr("outside of the file"));
}

}  // namespace
}  // namespace lockstep::state
