#include <gtest/gtest.h>
#include <lockstep/base/text.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using namespace std::string_literals;

TEST(Parse, TakesWholeDecimalIntegers) {
  const std::vector<std::pair<std::string, std::int64_t>> cases = {
      {"0", 0},   {"7", 7},     {"-1", -1},
      {"007", 7}, {"-0", 0},    {"9223372036854775807", INT64_MAX},
      {"10", 10}, {"-12", -12}, {"-9223372036854775808", INT64_MIN}};
  for (const auto& [text, value] : cases) EXPECT_EQ(parse_integer(text), value) << text;
}

TEST(Parse, RefusesAllElseAsInteger) {
  for (const auto& text :
       {""s, " "s, "-"s, "+1"s, " 1"s, "1 "s, "1\n"s, "1.0"s, "1e3"s, "0x10"s, "1_000"s, "--1"s, "one"s,
        "9223372036854775808"s, "-9223372036854775809"s, "99999999999999999999999"s, "1\0"s}) {
    EXPECT_EQ(parse_integer(text), std::nullopt) << "'" << text << "'";
  }
}

TEST(Parse, TakesFiniteNumbers) {
  const std::vector<std::pair<std::string, double>> cases = {{"0", 0},
                                                             {"1", 1},
                                                             {"-2.5", -2.5},
                                                             {"1e-3", 1e-3},
                                                             {"1E3", 1000},
                                                             {"1e+3", 1000},
                                                             {".5", 0.5},
                                                             {"5.", 5},
                                                             {"0.1", 0.1},
                                                             {"-0.0", 0.0},
                                                             {"1.7976931348623157e308", 1.7976931348623157e308}};
  for (const auto& [text, value] : cases) EXPECT_EQ(parse_number(text), value) << text;
}

TEST(Parse, RefusesAllElseAsNumber) {
  for (const auto& text :
       {""s,     " "s,   "+1"s,  "1 "s,       " 1"s,    "1,5"s,    "1.5.2"s, "1e"s, "e5"s, "inf"s,
        "-inf"s, "nan"s, "NaN"s, "infinity"s, "1e400"s, "1e-400"s, "0x1p3"s, "-"s,  "."s,  "1.0f"s}) {
    EXPECT_EQ(parse_number(text), std::nullopt) << "'" << text << "'";
  }
}

TEST(Parse, TakesTheWordsForTrueAndFalse) {
  for (const auto* text : {"true", "True", "TRUE", "yes", "on", "ON", "1"}) EXPECT_EQ(parse_bool(text), true) << text;
  for (const auto* text : {"false", "False", "no", "No", "off", "0"}) EXPECT_EQ(parse_bool(text), false) << text;
  for (const auto* text : {"", "tRue", "t", "y", "2", "-1", " true", "true ", "none"}) {
    EXPECT_EQ(parse_bool(text), std::nullopt) << "'" << text << "'";
  }
}

TEST(Parse, TakesBytesInPowersOf1024) {
  const std::vector<std::pair<std::string, std::int64_t>> cases = {{"0", 0},
                                                                   {"512", 512},
                                                                   {"64K", 65536},
                                                                   {"1M", 1048576},
                                                                   {"100M", 104857600},
                                                                   {"2G", 2147483648},
                                                                   {"1T", 1099511627776},
                                                                   {"8388607T", 8388607LL << 40}};
  for (const auto& [text, value] : cases) EXPECT_EQ(parse_bytes(text), value) << text;
}

TEST(Parse, RefusesAllElseAsBytes) {
  for (const auto* text : {"", "K", "-1", "-1K", "-0", "1k", "1KB", "1 K", " 1K", "1.5M", "8388608T", "1P", "+1"}) {
    EXPECT_EQ(parse_bytes(text), std::nullopt) << "'" << text << "'";
  }
}

TEST(Parse, TakesBlanksOffBothEnds) {
  EXPECT_EQ(trimmed(" \t a b\t "), "a b");
  EXPECT_EQ(trimmed("a\r\n"), "a\r\n");
  EXPECT_EQ(trimmed("a\r\n", "\r\n"), "a");
  EXPECT_EQ(trimmed(" \t "), "");
  EXPECT_EQ(trimmed(""), "");
}

}  // namespace
}  // namespace lockstep
